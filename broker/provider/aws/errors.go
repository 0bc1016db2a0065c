package aws

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"ebb/broker/provider"
)

// reply is what an AWS error says. Code is empty or "UnknownError" where the
// service writes errors in its own way (RGW): then the status counts.
type reply struct {
	code   string
	status int
	header http.Header
}

func replyOf(err error) (r reply, ok bool) {
	if api, is := errors.AsType[smithy.APIError](err); is {
		r.code, ok = api.ErrorCode(), true
	}
	if resp, is := errors.AsType[*smithyhttp.ResponseError](err); is && resp.Response != nil {
		r.status, r.header = resp.Response.StatusCode, resp.Response.Header
	}
	return r, ok && r.status != 0
}

// throttled reports whether the provider limits the rate.
func (r reply) throttled() bool {
	_, named := retry.DefaultThrottleErrorCodes[r.code]
	return named || r.status == http.StatusTooManyRequests
}

// missing reports whether what the call names is not there.
func (r reply) missing() bool { return r.code == "NoSuchEntity" || r.status == http.StatusNotFound }

// full reports whether a policy is larger than IAM takes.
func (r reply) full() bool { return r.code == "LimitExceeded" }

// concurrent reports that somebody else was writing at the same time.
func (r reply) concurrent() bool {
	return r.code == "ConcurrentModification" || r.code == "ConcurrentModificationException"
}

// judged reports whether the provider has understood a call and refused it.
func judged(err error) bool {
	r, ok := replyOf(err)
	return ok && (r.throttled() || r.status >= 400 && r.status < 500)
}

// defaultPause is what to wait when the provider does not say.
const defaultPause = 2 * time.Second

// busy makes a *BusyError of a refusal for the rate, and nil of anything else.
func busy(err error, now time.Time) error {
	r, ok := replyOf(err)
	if !ok || !r.throttled() {
		return nil
	}
	after, told := provider.RetryAfter(r.header, now)
	if !told {
		after = defaultPause
	}
	return &provider.BusyError{After: after, Cause: err}
}

// Sentences for refusals, by AWS's code; RGW's and MinIO's statuses below.
var sentences = map[string]string{
	"AccessDenied": "AWS does not let ebb assume the role of this scope: its trust policy must allow ebb sts:AssumeRole, and sts:TagSession and sts:SetSourceIdentity where those are on; " +
		"ask the operator to run ebb providers check",
	"MalformedPolicyDocument": "AWS does not understand the session policy of this scope: ask the operator to look at the statements of this provider",
	"PackedPolicyTooLarge":    "the session policy and tags of this request are larger than AWS takes: ask for fewer scopes at once",
	"ValidationError":         "AWS refuses the request for this role: ask the operator to compare max_session and external_id with the role",
	"RegionDisabledException": "AWS STS is not activated in the configured region: ask the operator to activate it or to choose another region",
	"NoSuchEntity":            "the role of this scope does not exist any more: ask the operator to make it again or to take it out of the configuration",
}

// ownFault are refusals of ebb's own credentials.
var ownFault = []string{"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "SignatureDoesNotMatch", "InvalidAccessKeyId", "RequestExpired", "AuthFailure", "UnrecognizedClientException"}

// mintError turns what AssumeRole said into what Mint says.
func mintError(err error, sure bool, now time.Time) error {
	if !sure {
		return fmt.Errorf("assuming the role: %w", err)
	}
	if b := busy(err, now); b != nil {
		return b
	}
	r, _ := replyOf(err)
	public, known := sentences[r.code]
	switch {
	case known:
	case slices.Contains(ownFault, r.code):
		public = "AWS does not accept ebb's own credentials: ask the operator to run ebb providers check"
	case r.missing():
		public = sentences["NoSuchEntity"]
	case r.status == http.StatusForbidden:
		public = sentences["AccessDenied"]
	default:
		public = "AWS refuses to make this session: ask the operator to run ebb providers check"
	}
	return provider.Refused(public, err)
}
