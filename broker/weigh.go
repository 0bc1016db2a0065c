package broker

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"ebb/broker/risk"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// highRisk is the rule that a request of high risk adds to those of policy. No policy
// has that id: theirs have no colon.
const highRisk = "ebb:high-risk"

// Bounds of what is looked at for one request, newest first.
const (
	historyAge   = 90 * 24 * time.Hour
	historyLimit = 100
	heldLimit    = 100
)

// AsAsked is what moves by itself while a request waits, as it was when it was made.
// The digest covers it as that, with its time: an approval must not become impossible
// because the clock goes on, and no later moment can make it untrue.
type AsAsked struct {
	At          time.Time  `json:"at"`
	EvidenceAge Seconds    `json:"evidence_age_seconds"` // of the sandbox; 0 = shown with the request
	Denials     int        `json:"denials"`              // in the task, by policy or people
	Grants      int        `json:"grants_live"`          // approvals of the task that can still be used
	First       bool       `json:"first"`                // nobody has approved these actions at this provider for this owner and kind of task, as far as history reaches
	Earlier     Earlier    `json:"earlier"`
	Changes     []risk.Row `json:"changes"` // what the task can do now, and would be able to do
}

// Earlier is how often the same scope was asked for the same owner, in any task, and
// what came of it: of the owner's newest 100 requests to that provider, of 90 days.
type Earlier struct {
	Asked    int          `json:"asked"`
	Approved int          `json:"approved"`
	Denied   int          `json:"denied"`
	Last     RequestState `json:"last,omitempty"` // what the newest of them came to
	LastAt   time.Time    `json:"last_at,omitzero"`
	LastBy   string       `json:"last_by,omitempty"`   // who denied or approved it last
	LastCode DenyCode     `json:"last_code,omitempty"` // of a denial
}

// asAsked looks at what moves.
func (b *Broker) asAsked(ctx context.Context, w want, ttl Seconds, now time.Time) (AsAsked, error) {
	out := AsAsked{At: now, Denials: w.live.Denials}
	if !w.fresh {
		out.EvidenceAge = Seconds(max(now.Sub(w.sandbox.At), 0) / time.Second)
	}
	before, err := b.cfg.Desk.Requests(ctx, RequestFilter{
		Owner: w.live.Owner, Provider: w.name, Since: now.Add(-historyAge), Page: Page{Desc: true, Limit: historyLimit},
	})
	if err != nil {
		return out, err
	}
	out.Earlier, out.First = w.history(before)
	grants, err := b.cfg.Desk.Requests(ctx, RequestFilter{TaskID: w.live.ID, GrantLive: now, Page: Page{Desc: true, Limit: heldLimit}})
	if err != nil {
		return out, err
	}
	out.Grants = len(grants)
	leases, err := b.cfg.Journal.Leases(ctx, LeaseFilter{TaskID: w.live.ID, Provider: w.name, State: LeaseLive, Now: now, Page: Page{Desc: true, Limit: heldLimit}})
	if err != nil {
		return out, err
	}
	var held []risk.Hold
	for _, g := range grants {
		if g.Provider == w.name {
			held = append(held, risk.Hold{Scopes: g.Granted, Audience: g.Resource, Left: g.GrantUntil.Sub(now), Binding: g.Binding})
		}
	}
	for _, l := range leases {
		held = append(held, risk.Hold{Scopes: l.Scopes, Audience: l.Resource, Left: l.ExpiresAt.Sub(now), Binding: l.Binding})
	}
	out.Changes = risk.Compare(held, risk.Hold{Scopes: w.scopes, Audience: w.provider.Resource, Left: ttl.Duration(), Binding: w.bind})
	return out, nil
}

// history sums up the owner's earlier requests, newest first.
func (w want) history(before []Request) (e Earlier, first bool) {
	approved := map[string]bool{}
	for _, r := range before {
		yes := r.State == RequestApproved || r.State == RequestIssued
		if yes && kindOf(r) == w.live.Kind {
			for _, s := range r.Granted.Scopes() {
				approved[s.Action()] = true
			}
		}
		if !r.Scopes.Equal(w.scopes) || r.Provider != w.name {
			continue
		}
		e.Asked++
		switch {
		case yes:
			e.Approved++
		case r.State == RequestDenied:
			e.Denied++
		}
		if e.Last != "" {
			continue
		}
		e.Last, e.LastAt, e.LastCode = r.State, r.DecidedAt, r.Code
		if r.DecidedAt.IsZero() {
			e.LastAt = r.CreatedAt
		}
		if n := len(r.Votes); n > 0 && r.State != RequestPending {
			e.LastBy = r.Votes[n-1].By
		}
	}
	for _, s := range w.scopes.Scopes() {
		first = first || !approved[s.Action()]
	}
	return e, first
}

// kindOf is the kind of the task that r was made in, as its facts say.
func kindOf(r Request) string {
	var f struct {
		Kind string `json:"task_kind"`
	}
	_ = json.Unmarshal(r.Facts, &f) // of facts that cannot be read, the kind is nobody's
	return f.Kind
}

// weighed is how bad a want is.
type weighed struct {
	risk.Result
	effect   risk.Effect
	undoable scopes.Set // the part whose effects can be undone
}

// weigh judges a want by what is so now and, of what moves, by what was so when it
// was asked.
func (b *Broker) weigh(w want, ttl Seconds, then AsAsked) (out weighed) {
	out.effect, out.undoable = risk.EffectOf(w.provider.Driver, w.provider.Words, w.scopes)
	revoking := w.promise()
	out.Result = risk.Judge(risk.Facts{
		Effect: out.effect, Pattern: slices.ContainsFunc(w.scopes.Scopes(), scopes.Scope.IsPattern),
		Class: revoking.Class, Bound: revoking.Bound, TTL: ttl.Duration(), First: then.First, Taint: w.live.Taint,
		Evidence: w.sandbox.Class, EvidenceAge: then.EvidenceAge.Duration(), Delegated: len(w.live.Ancestors) > 0,
		Violations: w.live.Violations, Denials: then.Denials, Production: risk.Production(w.live.Labels),
	})
	return out
}

// wanted is who must agree: those that policy asks, and of high risk several.
func (b *Broker) wanted(d policy.Decision, r risk.Result) policy.Approval {
	if r.Level == risk.High {
		return d.Ask.Raised(highRisk, b.cfg.Limits.HighRiskQuorum)
	}
	return *d.Ask
}
