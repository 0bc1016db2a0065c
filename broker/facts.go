package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

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
