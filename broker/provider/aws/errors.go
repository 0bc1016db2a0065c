package aws

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker/awsapi"
	"github.com/ebb-broker/ebb/broker/provider"
)

// reply is what an AWS error says.
type reply struct{ awsapi.Reply }

func replyOf(err error) (reply, bool) {
	r, ok := awsapi.ReplyOf(err)
	return reply{r}, ok
}

// missing reports whether the named object does not exist. The status code is not enough: with a
// 404 of a proxy, a role would count as deleted and its sessions as dead.
func (r reply) missing() bool { return r.Code == "NoSuchEntity" }

// full reports whether a policy is larger than IAM takes.
func (r reply) full() bool { return r.Code == "LimitExceeded" }

// concurrent reports whether another writer changed the policy at the same time.
func (r reply) concurrent() bool {
	return r.Code == "ConcurrentModification" || r.Code == "ConcurrentModificationException"
}

// defaultPause is what to wait when the provider does not say.
const defaultPause = 2 * time.Second

// busy makes a *BusyError of a refusal for the rate, and nil of anything else.
func busy(err error, now time.Time) error {
	r, ok := replyOf(err)
	if !ok || !r.Throttled() {
		return nil
	}
	return provider.Busy(r.Header, now, defaultPause, err)
}

// Sentences for refusals, by AWS's code.
var sentences = map[string]string{
	"AccessDenied": "AWS does not let ebb assume the role of this scope: its trust policy must allow ebb sts:AssumeRole, and sts:TagSession and sts:SetSourceIdentity where those are on; " +
		"ask the operator to run ebb providers check",
	"MalformedPolicyDocument": "AWS does not understand the session policy of this scope: ask the operator to look at the statements of this provider",
	"PackedPolicyTooLarge":    "the session policy and tags of this request are larger than AWS takes: ask for fewer scopes at once",
	"ValidationError":         "AWS refuses the request for this role: ask the operator to compare max_session and external_id with the role",
	"RegionDisabledException": "AWS STS is not activated in the configured region: ask the operator to activate it or to choose another region",
	"NoSuchEntity":            "the role of this scope does not exist any more: ask the operator to make it again or to take it out of the configuration",
}

// mintError turns what AssumeRole said into what Mint says.
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
