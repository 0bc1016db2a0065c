package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"

	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
)

// clients are the clients of STS and IAM with ebb's own credentials.
type clients struct {
	sts     *sts.Client
	iam     iamCalls
	timeout time.Duration // of one attempt
}

// iamCalls are the calls of iam.Client that this package uses. The fields are
// functions and not the client, because the linker keeps all methods of a type
// that reflection may reach: all calls of IAM add 5 MB to the binary.
type iamCalls struct {
	getRole          call[iam.GetRoleInput, iam.GetRoleOutput]
	getRolePolicy    call[iam.GetRolePolicyInput, iam.GetRolePolicyOutput]
	putRolePolicy    call[iam.PutRolePolicyInput, iam.PutRolePolicyOutput]
	deleteRolePolicy call[iam.DeleteRolePolicyInput, iam.DeleteRolePolicyOutput]
}

// call is the type of a call of IAM.
type call[In, Out any] func(context.Context, *In, ...func(*iam.Options)) (*Out, error)

func (c Config) clients(s settings) (clients, error) {
	cfg, err := awsapi.Config{
		Region: c.Region, Endpoint: c.Endpoint, Roots: s.roots, Timeout: s.timeout, AccessKeyFile: c.AccessKeyFile, SecretKeyFile: c.SecretKeyFile,
	}.SDK()
	if err != nil {
		return clients{}, err
	}
	i := iam.NewFromConfig(cfg)
	return clients{sts: sts.NewFromConfig(cfg), iam: iamCalls{i.GetRole, i.GetRolePolicy, i.PutRolePolicy, i.DeleteRolePolicy}, timeout: s.timeout}, nil
}

// witness is a retryer that records whether any attempt ended without a response from the
// provider. In that case a later refusal does not prove that no session was made.
type witness struct {
	sdk.RetryerV2
	unsure atomic.Bool
}

// IsErrorRetryable implements aws.Retryer. The SDK calls it after every failed attempt.
func (w *witness) IsErrorRetryable(err error) bool {
	if !awsapi.Judged(err) {
		w.unsure.Store(true)
	}
	return w.RetryerV2.IsErrorRetryable(err)
}

// assume calls AssumeRole. sure is false when a session may have been made although
// the call failed.
func (c clients) assume(ctx context.Context, in *sts.AssumeRoleInput) (out *sts.AssumeRoleOutput, sure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, awsapi.CallTime(c.timeout))
	defer cancel()
	var w *witness
	out, err = c.sts.AssumeRole(ctx, in, func(o *sts.Options) {
		v2, ok := o.Retryer.(sdk.RetryerV2)
		if !ok {
			v2 = awsapi.Retryer(c.timeout)
		}
		w = &witness{RetryerV2: v2}
		o.Retryer = w
	})
	return out, err == nil || w != nil && !w.unsure.Load() && awsapi.Judged(err), err
}

// reply is the error response of AWS.
type reply struct{ awsapi.Reply }

func replyOf(err error) (reply, bool) {
	r, ok := awsapi.ReplyOf(err)
	return reply{r}, ok
}

// missing reports whether the named object does not exist. The status code is not enough: with a
// 404 of a proxy, a role would count as deleted and its sessions as dead.
func (r reply) missing() bool { return r.Code == "NoSuchEntity" }

// full reports whether a policy exceeds IAM's size limit.
func (r reply) full() bool { return r.Code == "LimitExceeded" }

// concurrent reports whether another writer changed the policy at the same time.
func (r reply) concurrent() bool {
	return r.Code == "ConcurrentModification" || r.Code == "ConcurrentModificationException"
}

// defaultPause is the wait when the provider states none.
const defaultPause = 2 * time.Second

// busy returns a *BusyError for a rate limit, and nil for other errors.
func busy(err error, now time.Time) error {
	r, ok := replyOf(err)
	if !ok || !r.Throttled() {
		return nil
	}
	return provider.Busy(r.Header, now, defaultPause, err)
}

// sentences are the public sentences for refusals, by AWS's error code.
var sentences = map[string]string{
	"AccessDenied": "AWS does not let ebb assume the role of this scope: its trust policy must allow ebb sts:AssumeRole, and sts:TagSession and sts:SetSourceIdentity where those are on; " +
		"ask the operator to run ebb providers check",
	"MalformedPolicyDocument": "AWS does not understand the session policy of this scope: ask the operator to look at the statements of this provider",
	"PackedPolicyTooLarge":    "the session policy and tags of this request are larger than AWS takes: ask for fewer scopes at once",
	"ValidationError":         "AWS refuses the request for this role: ask the operator to compare max_session and external_id with the role",
	"RegionDisabledException": "AWS STS is not activated in the configured region: ask the operator to activate it or to choose another region",
	"NoSuchEntity":            "the role of this scope does not exist any more: ask the operator to make it again or to take it out of the configuration",
}

// mintError converts an error of AssumeRole to the error of Mint.
func mintError(err error, sure bool, now time.Time) error {
	if !sure {
		return fmt.Errorf("assuming the role: %w", err)
	}
	if b := busy(err, now); b != nil {
		return b
	}
	r, _ := replyOf(err)
	public, known := sentences[r.Code]
	switch {
	case known:
	case r.OwnFault():
		public = "AWS does not accept ebb's own credentials: ask the operator to run ebb providers check"
	case r.Status == http.StatusForbidden:
		public = sentences["AccessDenied"]
	default:
		public = "AWS refuses to make this session: ask the operator to run ebb providers check"
	}
	return provider.Refused(public, err)
}

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
		return nil // the role was deleted in the meantime; the next read reports it
	}
	return calling("PutRolePolicy", name, err)
}

// calling adds the failed call to err, and the next step for common causes.
func calling(call, role string, err error) error {
	if err == nil {
		return nil
	}
	r, _ := replyOf(err)
	switch {
	case r.full():
		return fmt.Errorf("role %s has no room for denials of sessions: move its own permissions from inline policies to a managed one: %w", role, err)
	case r.Status == http.StatusForbidden:
		return fmt.Errorf("ebb may not call iam:%s on role %s: allow it: %w", call, role, err)
	}
	return fmt.Errorf("iam:%s on role %s: %w", call, role, err)
}

// policyText decodes a policy from IAM, which is percent-encoded (RFC 3986). RGW does not
// encode policies.
func policyText(text string) (string, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return text, nil
	}
	plain, err := url.PathUnescape(text)
	if err != nil || plain == "" {
		return "", errors.New("the response of IAM has no valid policy")
	}
	return plain, nil
}

// serverTime returns the Date of a response (RFC 9110 section 6.6.1), zero without one.
func serverTime(m middleware.Metadata) time.Time {
	at, ok := awsmiddleware.GetServerTime(m)
	if !ok {
		return time.Time{}
	}
	return at
}
