package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Proofs that an approval may lack, as Error.Missing and the member "missing" of a problem
// document name them.
const (
	MissingTarget   = "target"   // the typed name of the target
	MissingPresence = "presence" // proof of presence: the person has just authenticated again at the console
)

// Presence is how and when a person proved their presence at the console.
type Presence struct {
	By       string    `json:"by"`            // "passkey", or the kind of sign-in: "link" or "oidc"
	ProvedAt time.Time `json:"proved_at"`     // of a sign-in the auth_time of the identity provider
	ACR      string    `json:"acr,omitempty"` // strength in the identity provider's words (OpenID Connect Core section 2)
}

// Mark is a request summary: enough to decide which people may see it.
type Mark struct {
	ID                   string
	Owner, Runner        string
	Scopes               scopes.Set
	Groups               []string
	Voters               []string // without an order
	Several              bool     // more than one vote may be needed, so that Voters can change
	State                RequestState
	CreatedAt, ExpiresAt time.Time
}

// RequestState is the state of a request to people. All but pending and approved are final.
type RequestState string

// Request states (reference: state machine of the deferred token response).
const (
	RequestPending   RequestState = "pending"
	RequestApproved  RequestState = "approved"  // decided, first token not yet fetched
	RequestIssued    RequestState = "issued"    // its first token was fetched; the grant lasts until GrantUntil
	RequestDenied    RequestState = "denied"    //
	RequestExpired   RequestState = "expired"   // no decision in time: counts as a denial
	RequestWithdrawn RequestState = "withdrawn" // withdrawn by the client or the end of its task
)

// DenyCode tells the agent the reason, so that it stops asking.
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
	Suspicious    DenyCode = "suspicious" // also ends the task

	// Set by ebb itself, without a denial by a person or policy.
	AskedEnough DenyCode = "asked_enough" // people have been asked often enough by this task or its owner
	TaskHeld    DenyCode = "task_paused"  // no token is issued and no person is asked until a person resumes the task
)

// Advice is the machine-readable part of the response to a denied agent.
type Advice struct {
	Decision       string     `json:"decision"` // "denied"; "ask": a person must decide; "wait": no person was asked, ask again later
	Code           DenyCode   `json:"code"`
	Note           string     `json:"note,omitempty"`
	WouldAllow     scopes.Set `json:"would_allow,omitzero"` // largest part that needs no approval
	RetryAfter     int64      `json:"retry_after_s"`
	DoNotRetrySame bool       `json:"do_not_retry_same"`
}

// PendingInfo is the response to a client that must poll (names of RFC 8628 section 3.2).
type PendingInfo struct {
	RequestID    string
	DeferralCode secret.Secret
	ExpiresIn    time.Duration
	Interval     time.Duration
	Groups       []string // groups whose members can approve
}

// Vote is one approver's decision.
type Vote struct {
	RequestID string   `json:"request_id"`
	By        string   `json:"by"`
	Also      []string `json:"-"` // other names of the same person
	// BreakGlass is the period under which one approval replaces all that the policy demands;
	// "" = none.
	BreakGlass string     `json:"break_glass,omitempty"`
	Groups     []string   `json:"groups,omitempty"` // of the approver at that moment; the policy demands people of certain groups
	Approve    bool       `json:"approve"`
	Digest     string     `json:"digest"`                // of the facts the approver saw
	Scopes     scopes.Set `json:"scope,omitzero"`        // narrower than asked, or empty = as asked
	TTL        Seconds    `json:"ttl_seconds,omitempty"` // shorter than asked, or 0 = as asked
	Code       DenyCode   `json:"code,omitempty"`
	Note       string     `json:"note,omitempty"` // to the agent, at most 500 code points
	At         time.Time  `json:"at"`
	ShownAt    time.Time  `json:"-"` // when the page was shown on which the approver answered; zero = no page
	Proof      string     `json:"-"` // JSON of a passkey assertion, at most MaxSnapshot bytes; read only with RequestFilter.Snapshots
	Snapshot   string     `json:"-"` // evidence snapshot: JSON of the facts and texts that the approver was shown, at most MaxSnapshot bytes; read only with RequestFilter.Snapshots
}

// SamePerson reports whether v and o are votes of one person, judged by their names: a person
// with a sign-in at the identity provider and a key is not two people.
func (v Vote) SamePerson(o Vote) bool {
	return people.Same(append([]string{v.By}, v.Also...), append([]string{o.By}, o.Also...))
}

// Request is a mint request that waits for a person's decision.
type Request struct {
	ID              string              `json:"id"`                   // "req_..."
	Match           string              `json:"match_code,omitempty"` // see MatchCode
	Rank            int                 `json:"-"`                    // rank in the queue: higher ranks first
	TaskID          string              `json:"task_id"`
	Sandbox         string              `json:"sandbox"`
	Owner           string              `json:"owner"`  // of the task: may never decide
	Runner          string              `json:"runner"` // of the task: may never decide
	Dedupe          string              `json:"-"`      // hash of task, scopes, resource, key, parents, tool; no agent text
	Provider        string              `json:"provider"`
	Scopes          scopes.Set          `json:"scope"`
	Resource        string              `json:"resource"`
	TTL             Seconds             `json:"ttl_seconds"`
	Binding         provider.Binding    `json:"cnf"`
	Tool            string              `json:"tool,omitempty"`
	Details         bool                `json:"details,omitempty"`
	EvidenceEnd     time.Time           `json:"evidence_until,omitzero"` // end of the evidence presented with the request: a token fetched by polling ends with it
	Parents         []string            `json:"-"`                       // leases it narrows: the last one is narrowed directly, each other is the parent of the next
	policy.Approval                     // required approvals: groups, quorum and rules
	Facts           Facts               `json:"facts"`
	Digest          string              `json:"digest"` // hex SHA-256 of Facts
	Reason          agenttext.Untrusted `json:"reason"` // the agent's words
	Asked           int                 `json:"asked"`  // how often the agent asked
	CreatedAt       time.Time           `json:"created_at"`
	ExpiresAt       time.Time           `json:"expires_at"` // without a decision by then it counts as denied

	State      RequestState `json:"state"`
	Votes      []Vote       `json:"votes,omitempty"`
	Replaced   []Vote       `json:"-"` // votes replaced by a later vote of the same person; read only with RequestFilter.Snapshots
	DecidedAt  time.Time    `json:"decided_at,omitzero"`
	Granted    scopes.Set   `json:"granted_scope,omitzero"`
	GrantedTTL Seconds      `json:"granted_ttl_seconds,omitempty"`
	GrantUntil time.Time    `json:"grant_until,omitzero"` // latest reuse of the approval
	Code       DenyCode     `json:"code,omitempty"`
	Note       string       `json:"note,omitempty"`
}

// KindOf returns the kind of the task in which r was made, from its facts.
func KindOf(r Request) string {
	var f struct {
		Kind string `json:"task_kind"`
	}
	_ = json.Unmarshal(r.Facts, &f) // unreadable facts have the kind ""
	return f.Kind
}

// Level returns the risk of the request. Without a readable level it is the highest.
func (r Request) Level() risk.Level {
	f, err := r.Sheet()
	if err != nil {
		return risk.High
	}
	return f.Level()
}

// Level returns the risk among the facts, the highest when they name none.
func (f FactSheet) Level() risk.Level {
	if f.Risk == nil || f.Risk.Level.Rank() == 0 {
		return risk.High
	}
	return f.Risk.Level
}

// Target returns the name that a person types to approve the request at high risk.
func (r Request) Target() string { return risk.TitleOf(r.Scopes, r.Provider).Target }

// Proofs returns the proofs with which v approves r, under the names of MissingProofs, as the
// audit entry of the approval holds them. An approval by the API proves nothing beyond the
// call: {}.
func (v Verdict) Proofs(r Request) map[string]any {
	out := map[string]any{}
	if v.Target != "" && v.Target == r.Target() { // a wrong name proves nothing, and its length is unbounded
		out[MissingTarget] = v.Target
	}
	if v.Present {
		out[MissingPresence] = v.Presence
	}
	return out
}

// For reports whether a person is eligible to decide the request.
func (m Mark) For(who Principal) bool {
	return MayDecide(who, Request{Owner: m.Owner, Runner: m.Runner, Scopes: m.Scopes, Approval: policy.Approval{Groups: m.Groups}}) == nil
}

// FactSheet holds the facts on which an approver decides. The broker alone computes them; the
// agent's words are not among them (I9). [Request.Facts] is its canonical form, whose hash is
// the digest; [Request.Sheet] decodes it.
type FactSheet struct {
	Request    string            `json:"request_id"`
	Scope      scopes.Set        `json:"scope"`
	Resource   string            `json:"resource"`
	Provider   string            `json:"provider"`
	Class      provider.Class    `json:"revocability"`
	Bound      Seconds           `json:"revocation_bound"` // class eventual
	TTL        Seconds           `json:"ttl_seconds"`
	Reuse      Seconds           `json:"grant_seconds"` // how long an approval can be reused for this and less, with the same tool; a shorter approved TTL shortens it
	Binding    provider.Binding  `json:"cnf"`
	Tool       string            `json:"tool"`
	TaskID     string            `json:"task_id"`
	TaskName   string            `json:"task_name"`
	TaskKind   string            `json:"task_kind"`
	Owner      string            `json:"owner"`
	Runner     string            `json:"runner"`
	Labels     map[string]string `json:"labels"`
	Deadline   time.Time         `json:"deadline"`
	Sandbox    Sandbox           `json:"sandbox"`
	Above      []string          `json:"delegated_by,omitempty"` // delegating sandboxes, from that of the runner's task to the direct parent
	WouldAllow scopes.Set        `json:"would_allow"`
	Rules      []string          `json:"rules"`
	Why        []string          `json:"why"`
	Ask        policy.Approval   `json:"ask"`
	Policy     string            `json:"policy_version"`
	Violations int               `json:"violations"`
	Taint      []string          `json:"taint"`
	ExpiresAt  time.Time         `json:"expires_at"`
	EndsBy     time.Time         `json:"ends_by,omitzero"` // latest end of every credential that the approval leads to, whenever it is given

	// Requests of older versions of ebb have none of the following members.
	Effect   *risk.Effect `json:"effect,omitempty"`
	Undoable scopes.Set   `json:"undoable,omitzero"` // the part with undoable effects, offered as a narrower approval; empty when that is all of it
	Risk     *risk.Result `json:"risk,omitempty"`
	Then     *AsAsked     `json:"as_asked,omitempty"`
	Delivery string       `json:"delivery,omitempty"` // policy.DeliveryToken or policy.DeliveryEgress; older requests have only the second
	// CouldStay: the token is issued to the sandbox, although egress could add all or a part of
	// it.
	CouldStay bool `json:"could_stay,omitempty"`
	// Content describes the one request that the approval is for; nil = it is for no single request.
	// See Lease.Content for the requests that the credential allows beside it.
	Content *content.Facts `json:"content,omitempty"`
	// MaxAmount is what the runner's task and all tasks below it may spend at the provider, with what
	// they spent there before; nil = no limit.
	MaxAmount amount.Limits `json:"max_amount,omitzero"`
}

// Understood reports whether ebb knows the effect of the scopes. People may approve only then.
func (f FactSheet) Understood() bool { return f.Effect != nil && f.Effect.Understood }

// End returns the latest end of a credential that is approved at a moment and issued at once.
func (f FactSheet) End(at time.Time) time.Time {
	return Earliest(at.Add(min(f.TTL, f.Reuse).Duration()), f.Deadline, f.EndsBy)
}

// Seal returns the canonical form of the facts (RFC 8785) and its hex SHA-256.
func Seal(f FactSheet) (Facts, string, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, "", err
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(canonical)
	return canonical, hex.EncodeToString(sum[:]), nil
}

// Sheet decodes the facts of r strictly: encoded again, they must have r's digest. A page that
// shows the sheet therefore shows all facts of the decision and nothing else. Requests with
// other facts cannot be decided.
func (r Request) Sheet() (FactSheet, error) {
	var f FactSheet
	d := json.NewDecoder(bytes.NewReader(r.Facts))
	d.DisallowUnknownFields()
	err := d.Decode(&f)
	if err == nil && d.InputOffset() != int64(len(r.Facts)) {
		err = ErrStale
	}
	if err == nil {
		var digest string
		if _, digest, err = Seal(f); err == nil && digest != r.Digest {
			err = ErrStale
		}
	}
	if err != nil {
		return FactSheet{}, E(Conflict, "The facts of this request cannot be read by this version of ebb. Deny it; the agent may ask again.", err)
	}
	return f, nil
}

// Facts is the canonical (RFC 8785) JSON of what an approver decides on.
type Facts = json.RawMessage

// AsAsked holds facts that change while a request waits, as they were when it was made. The
// digest covers them with their time. So the passing of time neither changes the digest nor
// makes an approval impossible.
type AsAsked struct {
	At          time.Time  `json:"at"`
	EvidenceAge Seconds    `json:"evidence_age_seconds"` // of the sandbox's evidence; 0 = presented with the request
	Denials     int        `json:"denials"`              // in the task, by policy or by people
	Grants      int        `json:"grants_live"`          // approvals of the task that can still be used
	First       bool       `json:"first"`                // no approval of these actions at this provider for this owner and kind of task, as far as history reaches
	Earlier     Earlier    `json:"earlier"`
	Changes     []risk.Row `json:"changes"` // what the task can do now, and could do in addition
}

// Earlier counts earlier requests for the same scope and owner, in any task, and their
// outcomes. It covers the owner's newest 100 requests to that provider in the last 90 days.
type Earlier struct {
	Asked    int          `json:"asked"`
	Approved int          `json:"approved"`
	Denied   int          `json:"denied"`
	Last     RequestState `json:"last,omitempty"` // state of the newest of them
	LastAt   time.Time    `json:"last_at,omitzero"`
	LastBy   string       `json:"last_by,omitempty"`   // the person who denied or approved it last
	LastCode DenyCode     `json:"last_code,omitempty"` // of a denial
}

// Verdict is the decision that an approver submits.
type Verdict struct {
	Approve  bool
	Digest   string     // of the facts the approver saw; required to approve
	Scopes   scopes.Set // narrower, or empty
	TTL      Seconds    // shorter, or 0
	Code     DenyCode
	Note     string
	Snapshot string    // evidence snapshot: JSON of the facts and texts that the approver was shown; "" = decided by the API or the command line
	ShownAt  time.Time // with Snapshot: when the page was shown
	Proof    string    // JSON of the approver's proof of intent; "" = the session alone
	Choice   string    // with Proof: the decision that was signed, in the console's word
	Passkey  string    // with Proof: id of the passkey, in hex
	Target   string    // the name of the request's target, as the person typed it
	// Present means that the person has just proved their presence, as strongly as the risk
	// demands. Only the console sets it.
	Present  bool
	Presence Presence // with Present: how they proved it
	// BreakGlass is the period under which the person approves alone; only the console sets it.
	BreakGlass string
}
