package aws

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
)

// CheckSetup implements provider.Checker. It assumes each role once, with a session policy
// that denies everything, and revokes that session. So it uses everything that minting and
// revoking need, in the same way.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	out := d.checkSelf(ctx)
	seen := map[string]bool{}
	for _, r := range d.rules {
		for _, arn := range r.arns {
			if !seen[arn] {
				out = append(out, d.checkRole(ctx, r, arn)...)
			}
			seen[arn] = true
		}
	}
	return out
}

// checkSelf checks ebb's own credentials and clock. RGW and MinIO do not support
// GetCallerIdentity; there the first AssumeRole is the check.
func (d *Driver) checkSelf(ctx context.Context) []provider.Finding {
	ctx, cancel := context.WithTimeout(ctx, awsapi.CallTime(d.timeout))
	defer cancel()
	me, err := d.aws.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		if r, ok := replyOf(err); ok && d.flavor != flavorAWS && !r.Throttled() && r.Status < http.StatusInternalServerError {
			return nil
		}
		return []provider.Finding{{Fatal: true, What: "sts:GetCallerIdentity fails: " + code(err),
			Remedy: "give ebb credentials (a role of its machine, or access_key_file and secret_key_file) and a way to STS in region " + d.cfg.Region}}
	}
	var out []provider.Finding
	if at := serverTime(me.ResultMetadata); !at.IsZero() {
		if off := d.now().Sub(at).Round(time.Second); off > 5*time.Second || off < -5*time.Second {
			out = append(out, provider.Finding{Fatal: off.Abs() > skew, What: fmt.Sprintf("this machine's clock is %s from AWS's: sessions would end that much too late or too soon", off), Remedy: "synchronise the clock (NTP)"})
		}
	}
	if strings.Contains(sdk.ToString(me.Arn), ":assumed-role/") {
		for _, r := range d.rules {
			if r.maxSession > time.Hour {
				out = append(out, provider.Finding{What: "ebb runs in a role itself, and AWS ends chained sessions after 1h: longer ones are refused", Remedy: "set max_session to 1h or less"})
				break
			}
		}
	}
	return out
}

func (d *Driver) checkRole(ctx context.Context, r rule, arn string) []provider.Finding {
	name := roleName(arn)
	fatal := func(what, remedy string) []provider.Finding {
		return []provider.Finding{{Fatal: true, What: "role " + name + ": " + what, Remedy: remedy}}
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	now := d.now()
	h := handle{Role: arn, Session: "ebb-check-" + hex.EncodeToString(id), By: byUserID, Issued: now.Unix(), Until: now.Add(minSession).Unix()}
	if d.sourceIdentity {
		h.By = bySourceIdentity
	}
	_, sure, err := d.aws.assume(ctx, d.request(provider.Grant{LeaseID: "check", TaskID: "check", Sandbox: "check"}, h, denyAll, minSession))
	if err != nil {
		if b := busy(err, now); b != nil && sure {
			return []provider.Finding{{What: "role " + name + ": AWS limits the rate of calls", Remedy: "check again later"}}
		}
		return fatal("cannot be assumed: "+code(err), "its trust policy must allow ebb's own identity sts:AssumeRole, with sts:TagSession and sts:SetSourceIdentity where those are on, and the configured external_id; see docs/providers/aws.md")
	}
	if !d.deny {
		return nil
	}
	if _, err := d.writer(arn).do(ctx, h, true); err != nil {
		return fatal("sessions cannot be revoked: "+code(err),
			"allow ebb iam:GetRole, iam:GetRolePolicy, iam:PutRolePolicy and iam:DeleteRolePolicy on it, or set revoke: none")
	}
	roleCtx, cancel := context.WithTimeout(ctx, awsapi.CallTime(d.timeout))
	defer cancel()
	got, err := d.aws.iam.getRole(roleCtx, &iam.GetRoleInput{RoleName: &name})
	if err != nil {
		return fatal("iam:GetRole fails: "+code(err), "allow ebb iam:GetRole on it")
	}
	if got.Role != nil && got.Role.MaxSessionDuration != nil {
		if most := time.Duration(*got.Role.MaxSessionDuration) * time.Second; most < r.maxSession {
			return fatal(fmt.Sprintf("its sessions last %s at most, and max_session is %s", most, r.maxSession), "lower max_session, or raise the role's")
		}
	}
	return nil
}

// code returns the part of an error that may be reported: AWS's code and status, or that there was
// no response. The cause could hold names of hosts and requests.
func code(err error) string {
	r, ok := replyOf(err)
	if !ok {
		return "no usable answer"
	}
	if r.Code == "" || r.Code == "UnknownError" {
		return fmt.Sprintf("status %d", r.Status)
	}
	return fmt.Sprintf("%s (status %d)", r.Code, r.Status)
}
