package broker

import (
	"slices"
	"strings"
	"time"

	"ebb/broker/agenttext"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// RequestState is where an escalation is. All but pending and approved are final.
type RequestState string

// Request states (reference: state machine of the deferred token response).
const (
	RequestPending   RequestState = "pending"
	RequestApproved  RequestState = "approved"  // decided, first token not yet taken
	RequestIssued    RequestState = "issued"    // its first token was taken; the grant goes on until GrantUntil
	RequestDenied    RequestState = "denied"    //
	RequestExpired   RequestState = "expired"   // nobody decided in time: a no
	RequestWithdrawn RequestState = "withdrawn" // the client or the end of its task took it back
)

// DenyCode tells the agent why, so that it stops asking.
type DenyCode string

// Deny codes.
const (
	TooBroad      DenyCode = "too_broad"
	WrongResource DenyCode = "wrong_resource"
	NotNeeded     DenyCode = "not_needed"
	UseExisting   DenyCode = "use_existing_grant"
	AskOwner      DenyCode = "ask_owner"
	NoAnswer      DenyCode = "no_answer"
	ByPolicy      DenyCode = "policy"
	Suspicious    DenyCode = "suspicious" // also stops the task

	// Of ebb's own, where nobody has denied anything.
	AskedEnough DenyCode = "asked_enough" // people have enough questions of this task or its owner
	TaskHeld    DenyCode = "task_paused"  // nothing mints and nobody is asked until a person resumes the task
)

// Advice is what a denied agent is told, as data.
type Advice struct {
	Decision       string     `json:"decision"` // "denied"; "ask": a person must decide; "wait": nobody was asked, ask again later
	Code           DenyCode   `json:"code"`
	Note           string     `json:"note,omitempty"`
	WouldAllow     scopes.Set `json:"would_allow,omitzero"` // largest part that needs nobody
	RetryAfter     int64      `json:"retry_after_s"`
	DoNotRetrySame bool       `json:"do_not_retry_same"`
}

// PendingInfo is what a waiting client needs (RFC 8628 section 3.2 names).
type PendingInfo struct {
	RequestID    string
	DeferralCode provider.Secret
	ExpiresIn    time.Duration
	Interval     time.Duration
}

// Vote is one approver's answer.
type Vote struct {
	RequestID string   `json:"request_id"`
	By        string   `json:"by"`
	Also      []string `json:"-"` // other names of the same person
	// BreakGlass is the period under which a yes counts for all whom policy asks; "" = none.
	BreakGlass string     `json:"break_glass,omitempty"`
	Groups     []string   `json:"groups,omitempty"` // of the approver at that moment: policy asks for people of certain groups
	Approve    bool       `json:"approve"`
	Digest     string     `json:"digest"`                // of the facts the approver saw
	Scopes     scopes.Set `json:"scope,omitzero"`        // narrower than asked, or empty = as asked
	TTL        Seconds    `json:"ttl_seconds,omitempty"` // shorter than asked, or 0 = as asked
	Code       DenyCode   `json:"code,omitempty"`
	Note       string     `json:"note,omitempty"` // to the agent, at most 500 code points
	At         time.Time  `json:"at"`
	Proof      string     `json:"-"` // JSON of a passkey's assertion, at most MaxSeen bytes; read as Seen is
	Seen       string     `json:"-"` // JSON of what the approver was shown, at most MaxSeen bytes; read only with RequestFilter.Seen
}

// SamePerson reports whether v and o are answers of one person, as far as their names
// tell: whoever signs in at the identity provider and has a key too is not two people.
func (v Vote) SamePerson(o Vote) bool {
	theirs := append([]string{o.By}, o.Also...)
	return slices.ContainsFunc(append([]string{v.By}, v.Also...), func(mine string) bool {
		return slices.ContainsFunc(theirs, func(n string) bool { return strings.EqualFold(mine, n) })
	})
}

// Request is an escalation that waits for a person.
type Request struct {
	ID              string              `json:"id"`                   // "req_..."
	Match           string              `json:"match_code,omitempty"` // see MatchCode
	Rank            int                 `json:"-"`                    // place in the queue: the higher, the earlier
	TaskID          string              `json:"task_id"`
	Sandbox         string              `json:"sandbox"`
	Owner           string              `json:"owner"`  // of the task: may never approve
	Runner          string              `json:"runner"` // of the task: may never approve
	Dedupe          string              `json:"-"`      // hash of task, scopes, resource, key, parents, tool; no agent text
	Provider        string              `json:"provider"`
	Scopes          scopes.Set          `json:"scope"`
	Resource        string              `json:"resource"`
	TTL             Seconds             `json:"ttl_seconds"`
	Binding         provider.Binding    `json:"cnf"`
	Tool            string              `json:"tool,omitempty"`
	Details         bool                `json:"details,omitempty"`
	EvidenceEnd     time.Time           `json:"evidence_until,omitzero"` // a token taken by polling dies with the evidence it was asked on
	Parents         []string            `json:"-"`                       // it was asked for by narrowing the last of these leases, itself narrowed from the one before
	policy.Approval                     // who must agree: groups, quorum and, what counts, rules
	Facts           Facts               `json:"facts"`
	Digest          string              `json:"digest"` // hex SHA-256 of Facts
	Reason          agenttext.Untrusted `json:"reason"` // the agent's words
	Asked           int                 `json:"asked"`  // how often it was asked
	CreatedAt       time.Time           `json:"created_at"`
	ExpiresAt       time.Time           `json:"expires_at"` // no answer by then is a no

	State      RequestState `json:"state"`
	Votes      []Vote       `json:"votes,omitempty"`
	Replaced   []Vote       `json:"-"` // answers that a later one of the same person took the place of; read only with RequestFilter.Seen
	DecidedAt  time.Time    `json:"decided_at,omitzero"`
	Granted    scopes.Set   `json:"granted_scope,omitzero"`
	GrantedTTL Seconds      `json:"granted_ttl_seconds,omitempty"`
	GrantUntil time.Time    `json:"grant_until,omitzero"` // reuse ends here
	Code       DenyCode     `json:"code,omitempty"`
	Note       string       `json:"note,omitempty"`
}
