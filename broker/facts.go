package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/gowebpki/jcs"

	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// facts is what an approver decides on, computed by the broker alone: the
// agent's words are not among them (I9).
type facts struct {
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
}

// seal makes facts canonical (RFC 8785) and names them by their SHA-256.
func seal(f facts) (Facts, string, error) {
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

// factsOf computes the facts of a request from the task as it is and the policy
// as it decides. Made again when somebody approves: a difference is a 409 (I7).
func (b *Broker) factsOf(r Request, t Live, s Sandbox, d policy.Decision) facts {
	var above []string
	for _, id := range t.Ancestors {
		above = append(above, sandboxOf(id))
	}
	revoking := promised(b.cfg.Providers[r.Provider])
	return facts{
		Above:   above,
		Request: r.ID, Scope: r.Scopes, Resource: r.Resource, Provider: r.Provider, Class: revoking.Class, Bound: Seconds(revoking.Bound / time.Second),
		TTL: r.TTL, Reuse: min(r.TTL, Seconds(b.cfg.Limits.GrantTTL/time.Second)), Binding: r.Binding, Tool: r.Tool, TaskID: t.ID, TaskName: t.Name, TaskKind: t.Kind, Owner: t.Owner,
		Runner: t.Runner, Labels: t.Labels, Deadline: t.Deadline, Sandbox: s, WouldAllow: d.WouldAllow, Rules: d.Rules,
		Why: d.Why, Ask: r.Approval, Policy: d.Version, Violations: t.Violations,
		Taint: t.Taint, ExpiresAt: r.ExpiresAt,
	}
}
