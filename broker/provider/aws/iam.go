package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go/middleware"

	"github.com/ebb-broker/ebb/broker/awsapi"
)

// denyPolicy is the name of the inline policy that holds a role's denials.
const denyPolicy = "ebb-revoked"

// read implements roleCalls with GetRolePolicy and, when there is no policy,
// GetRole: IAM answers NoSuchEntity for either.
func (c clients) read(ctx context.Context, role string) (text string, at time.Time, gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, awsapi.CallTime(c.timeout))
	defer cancel()
	name := roleName(role)
	got, err := c.iam.getRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &name, PolicyName: sdk.String(denyPolicy)})
	if err == nil {
		text, err = policyText(sdk.ToString(got.PolicyDocument))
		return text, serverTime(got.ResultMetadata), false, err
	}
	if r, ok := replyOf(err); !ok || !r.missing() {
		return "", time.Time{}, false, calling("GetRolePolicy", name, err)
	}
	have, err := c.iam.getRole(ctx, &iam.GetRoleInput{RoleName: &name})
	if err == nil {
		return "", serverTime(have.ResultMetadata), false, nil
	}
	if r, ok := replyOf(err); ok && r.missing() {
		return "", time.Time{}, true, nil
	}
	return "", time.Time{}, false, calling("GetRole", name, err)
}

// write implements roleCalls.
func (c clients) write(ctx context.Context, role, text string) error {
	ctx, cancel := context.WithTimeout(ctx, awsapi.CallTime(c.timeout))
	defer cancel()
	name := roleName(role)
	if text == "" {
		_, err := c.iam.deleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: &name, PolicyName: sdk.String(denyPolicy)})
		if r, ok := replyOf(err); ok && r.missing() {
			return nil
		}
		return calling("DeleteRolePolicy", name, err)
	}
	_, err := c.iam.putRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: &name, PolicyName: sdk.String(denyPolicy), PolicyDocument: &text})
	if r, ok := replyOf(err); ok && r.missing() {
		return nil // the role has gone meanwhile: the next read says so
	}
	return calling("PutRolePolicy", name, err)
}

// calling says what failed and what to do about the usual reasons.
func calling(call, role string, err error) error {
	if err == nil {
		return nil
	}
	r, _ := replyOf(err)
	switch {
	case r.full():
		return fmt.Errorf("role %s has no room for denies: move its own permissions from inline policies to a managed one: %w", role, err)
	case r.Status == http.StatusForbidden:
		return fmt.Errorf("ebb may not call iam:%s on role %s: allow it: %w", call, role, err)
	}
	return fmt.Errorf("iam:%s on role %s: %w", call, role, err)
}

// policyText undoes the encoding of RFC 3986 in which IAM returns policies; RGW
// returns them as they are.
func policyText(text string) (string, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return text, nil
	}
	plain, err := url.PathUnescape(text)
	if err != nil || plain == "" {
		return "", errors.New("IAM answered without a policy that can be read")
	}
	return plain, nil
}

// serverTime is the Date of an answer (RFC 9110 section 6.6.1), zero without one.
func serverTime(m middleware.Metadata) time.Time {
	at, ok := awsmiddleware.GetServerTime(m)
	if !ok {
		return time.Time{}
	}
	return at
}
