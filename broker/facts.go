package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/gowebpki/jcs"

	"ebb/broker/provider"
	"ebb/broker/risk"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// FactSheet is what an approver decides on, computed by the broker alone: the
// agent's words are not among them (I9). [Request.Facts] is its canonical form,
// which the digest names; [Request.Sheet] decodes that.
type FactSheet struct {
	Request    string            `json:"request_id"`
	Scope      scopes.Set        `json:"scope"`
	Resource   string            `json:"resource"`
	Provider   string            `json:"provider"`
	Class      provider.Class    `json:"revocability"`
	Bound      Seconds           `json:"revocation_bound"` // class eventual
	TTL        Seconds           `json:"ttl_seconds"`
	Reuse      Seconds           `json:"grant_seconds"` // how long an approval serves this and less, with the same tool; a shorter TTL shortens it
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
	Above      []string          `json:"delegated_by,omitempty"` // sandboxes, from the one of the runner's task to the one that delegated to it
	WouldAllow scopes.Set        `json:"would_allow"`
	Rules      []string          `json:"rules"`
	Why        []string          `json:"why"`
	Ask        policy.Approval   `json:"ask"`
	Policy     string            `json:"policy_version"`
	Violations int               `json:"violations"`
	Taint      []string          `json:"taint"`
	ExpiresAt  time.Time         `json:"expires_at"`
	EndsBy     time.Time         `json:"ends_by,omitzero"` // whenever it is approved, nothing that comes of it is alive after this

	// Requests of older versions of ebb have none of these.
	Effect   *risk.Effect `json:"effect,omitempty"`
	Undoable scopes.Set   `json:"undoable,omitzero"` // the part whose effects can be undone: a smaller yes; empty when that is all
	Risk     *risk.Result `json:"risk,omitempty"`
	Then     *AsAsked     `json:"as_asked,omitempty"`
	Delivery string       `json:"delivery,omitempty"` // policy.DeliveryToken or policy.DeliveryEgress; older ones have only the second
	// CouldStay: it is handed out, though egress could add it, or a part of it, to requests.
	CouldStay bool `json:"could_stay,omitempty"`
}

// Understood reports whether people may approve: ebb knows what the scopes allow.
func (f FactSheet) Understood() bool { return f.Effect != nil && f.Effect.Understood }

// End is when what is approved at a moment and used at once ends, at the latest.
func (f FactSheet) End(at time.Time) time.Time {
	return earliest(at.Add(min(f.TTL, f.Reuse).Duration()), f.Deadline, f.EndsBy)
}

// seal makes facts canonical (RFC 8785) and names them by their SHA-256.
func seal(f FactSheet) (Facts, string, error) {
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

// Sheet decodes the facts of r. They are read strictly: made again from what was
// decoded, they have r's digest, so whatever draws the sheet draws all that people
// decide on and nothing else. Facts of which that is not so cannot be decided on.
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
		if _, digest, err = seal(f); err == nil && digest != r.Digest {
			err = ErrStale
		}
	}
	if err != nil {
		return FactSheet{}, E(Conflict, "The facts of this request cannot be read by this version of ebb. Deny it; the agent may ask again.", err)
	}
	return f, nil
}

// factsOf computes the facts of a request from the task as it is and the policy
// as it decides; of what moves it takes what was so when it was asked. Made again
// when somebody approves: a difference is a 409 (I7).
func (b *Broker) factsOf(r Request, w want, d policy.Decision, then AsAsked) FactSheet {
	var above []string
	for _, id := range w.live.Ancestors {
		above = append(above, sandboxOf(id))
	}
	t, revoking := w.live, w.promise()
	how := b.weigh(w, r.TTL, then)
	if how.undoable.Equal(r.Scopes) {
		how.undoable = scopes.Set{}
	}
	reuse := min(r.TTL, Seconds(b.cfg.Limits.GrantTTL/time.Second))
	return FactSheet{
		Above:   above,
		Request: r.ID, Scope: r.Scopes, Resource: r.Resource, Provider: r.Provider, Class: revoking.Class, Bound: Seconds(revoking.Bound / time.Second),
		TTL: r.TTL, Reuse: reuse, Binding: r.Binding, Tool: r.Tool, TaskID: t.ID, TaskName: t.Name, TaskKind: t.Kind, Owner: t.Owner,
		Runner: t.Runner, Labels: t.Labels, Deadline: t.Deadline, Sandbox: w.sandbox, WouldAllow: d.WouldAllow, Rules: d.Rules,
		Why: d.Why, Ask: r.Approval, Policy: d.Version, Violations: t.Violations,
		Taint: t.Taint, ExpiresAt: r.ExpiresAt, EndsBy: earliest(r.ExpiresAt.Add(reuse.Duration()), t.Deadline, r.EvidenceEnd).UTC().Truncate(time.Millisecond),
		Effect: &how.effect, Undoable: how.undoable, Risk: &how.Result, Then: &then, Delivery: w.delivery, CouldStay: b.couldStay(w.provider, w.scopes, w.delivery),
	}
}
