package approval

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// factsOf computes the facts of a request from the current task and the policy's decision;
// facts that change by themselves are taken from then. It runs again when a person approves: a
// difference is a 409 (I7).
func (ap *Approvals) factsOf(r broker.Request, w kernel.MintRequest, d policy.Decision, then broker.AsAsked) broker.FactSheet {
	var above []string
	for _, id := range w.Live.Ancestors {
		above = append(above, broker.SandboxID(id))
	}
	t, revoking := w.Live, w.Promise()
	how := ap.assess(w, r.TTL, then)
	if how.undoable.Equal(r.Scopes) {
		how.undoable = scopes.Set{}
	}
	reuse := min(r.TTL, broker.Seconds(ap.limits.GrantTTL/time.Second))
	return broker.FactSheet{
		Above:   above,
		Request: r.ID, Scope: r.Scopes, Resource: r.Resource, Provider: r.Provider, Class: revoking.Class, Bound: broker.Seconds(revoking.Bound / time.Second),
		TTL: r.TTL, Reuse: reuse, Binding: r.Binding, Tool: r.Tool, TaskID: t.ID, TaskName: t.Name, TaskKind: t.Kind, Owner: t.Owner,
		Runner: t.Runner, Labels: t.Labels, Deadline: t.Deadline, Sandbox: w.Sandbox, WouldAllow: d.WouldAllow, Rules: d.Rules,
		Why: d.Why, Ask: r.Approval, Policy: d.Version, Violations: t.Violations,
		Taint: t.Taint, ExpiresAt: r.ExpiresAt, EndsBy: broker.Earliest(r.ExpiresAt.Add(reuse.Duration()), t.Deadline, r.EvidenceEnd).UTC().Truncate(time.Millisecond),
		Effect: &how.effect, Undoable: how.undoable, Risk: &how.Result, Then: &then, Delivery: w.Delivery, CouldStay: ap.issuer.CouldStay(w.Provider, w.Scopes, w.Delivery),
		Content: w.Content, MaxAmount: d.MaxAmount,
	}
}

// highRisk is the rule that a request of high risk adds to those of the policy. It cannot be
// the id of a policy, because those have no colon.
const highRisk = "ebb:high-risk"

// Bounds of the history read for one request, newest first.
const (
	historyAge   = 90 * 24 * time.Hour
	historyLimit = 100
	heldLimit    = 100
)

// asAsked reads the facts that change by themselves.
func (ap *Approvals) asAsked(ctx context.Context, w kernel.MintRequest, ttl broker.Seconds, now time.Time) (broker.AsAsked, error) {
	out := broker.AsAsked{At: now, Denials: w.Live.Denials}
	if !w.Fresh {
		out.EvidenceAge = broker.Seconds(max(now.Sub(w.Sandbox.At), 0) / time.Second)
	}
	before, err := ap.approvalStore.Requests(ctx, broker.RequestFilter{
		Owner: w.Live.Owner, Provider: w.Name, Since: now.Add(-historyAge), Page: broker.Page{Desc: true, Limit: historyLimit},
	})
	if err != nil {
		return out, err
	}
	out.Earlier, out.First = w.History(before)
	grants, err := ap.approvalStore.Requests(ctx, broker.RequestFilter{TaskID: w.Live.ID, GrantLive: now, Page: broker.Page{Desc: true, Limit: heldLimit}})
	if err != nil {
		return out, err
	}
	out.Grants = len(grants)
	leases, err := ap.store.Leases(ctx, broker.LeaseFilter{TaskID: w.Live.ID, Provider: w.Name, State: broker.LeaseLive, Now: now, Page: broker.Page{Desc: true, Limit: heldLimit}})
	if err != nil {
		return out, err
	}
	var held []risk.Hold
	for _, g := range grants {
		if g.Provider == w.Name {
			held = append(held, risk.Hold{Scopes: g.Granted, Audience: g.Resource, Left: g.GrantUntil.Sub(now), Binding: g.Binding})
		}
	}
	for _, l := range leases {
		held = append(held, risk.Hold{Scopes: l.Scopes, Audience: l.Resource, Left: l.ExpiresAt.Sub(now), Binding: l.Binding})
	}
	out.Changes = risk.Compare(held, risk.Hold{Scopes: w.Scopes, Audience: w.Provider.Resource, Left: ttl.Duration(), Binding: w.Bind})
	return out, nil
}

// assessment is the risk assessment of a mint request.
type assessment struct {
	risk.Result
	effect   risk.Effect
	undoable scopes.Set // the part whose effects can be undone
}

// assess returns the risk of a mint request by the current facts; for facts that change by
// themselves it uses their values at the time of the request.
func (ap *Approvals) assess(w kernel.MintRequest, ttl broker.Seconds, then broker.AsAsked) (out assessment) {
	out.effect, out.undoable = risk.EffectOf(w.Provider.Driver, w.Provider.Words, w.Scopes)
	revoking := w.Promise()
	out.Result = risk.Judge(risk.Facts{
		Effect: out.effect, Pattern: slices.ContainsFunc(w.Scopes.Scopes(), scopes.Scope.IsPattern),
		Class: revoking.Class, Bound: revoking.Bound, TTL: ttl.Duration(), First: then.First, Taint: w.Live.Taint,
		Evidence: w.Sandbox.Class, EvidenceAge: then.EvidenceAge.Duration(), Delegated: len(w.Live.Ancestors) > 0,
		Violations: w.Live.Violations, Denials: then.Denials, Production: risk.Production(w.Live.Labels),
	})
	return out
}

// wanted returns the required approvers: the groups and quorum of the policy, raised for high risk.
func (ap *Approvals) wanted(d policy.Decision, r risk.Result) policy.Approval {
	if r.Level == risk.High {
		return d.Ask.Raised(highRisk, ap.limits.HighRiskQuorum)
	}
	return *d.Ask
}

// grounded returns why no request of a sandbox can be approved at the moment; nil = it can.
func (ve *Verdicts) grounded(ctx context.Context, s broker.Sandbox) error {
	if _, known := ve.attestors[s.Attestor]; !known {
		return broker.E(broker.Conflict, "The attestor that attested this sandbox is no longer configured: its requests cannot be approved.", nil)
	}
	if ve.silent.Down(s, ve.clock.Now()) {
		return &broker.Error{Kind: broker.Unavailable, Public: "The attestor of this sandbox cannot check evidence at the moment: its requests cannot be approved. Try again shortly.", Cause: broker.ErrUnjudged, RetryAfter: kernel.UnjudgedFor}
	}
	err := ve.store.Writable(ctx)
	if err == nil {
		return nil
	}
	return &broker.Error{Kind: broker.Unavailable, Public: "The audit log cannot be written at the moment: no request can be approved. Try again shortly.", Cause: errors.Join(broker.ErrUnwritten, err), RetryAfter: 5 * time.Second}
}

// again returns r as it would be made now, and the policy's effect on it. It mints nothing and
// changes nothing.
func (ve *Verdicts) again(ctx context.Context, r broker.Request) (policy.Effect, broker.Request, error) {
	if ve.live.Incomplete.Load() {
		return policy.Deny, r, broker.StoreError(broker.ErrLost)
	}
	live, err := ve.liveStore.Admit(ctx, broker.Admission{TaskID: r.TaskID})
	if err != nil {
		return policy.Deny, r, broker.StoreError(err)
	}
	if live.State == broker.TaskClosed || live.Sandbox == nil {
		return policy.Deny, r, kernel.ClosedError(live.Task)
	}
	live, err = ve.tasks.UnderAncestors(live, func(a broker.Admission) (broker.Live, error) { return ve.liveStore.Admit(ctx, a) })
	if err != nil {
		return policy.Deny, r, kernel.LiveStoreError(err)
	}
	if err := ve.grounded(ctx, *live.Sandbox); err != nil {
		return policy.Deny, r, err
	}
	p, known := ve.providers[r.Provider]
	if !known {
		return policy.Deny, r, broker.E(broker.Conflict, "The provider of this request is no longer configured.", nil)
	}
	w := kernel.MintRequest{Caller: kernel.Caller{Live: live, Sandbox: *live.Sandbox, Lineage: r.Parents, Bind: r.Binding}, Scopes: r.Scopes, Name: r.Provider, Provider: p, TTL: r.TTL.Duration(), Tool: r.Tool, Delivery: delivered(r), Content: limitedTo(r)}
	d, err := ve.issuer.Judge(&w)
	if err != nil {
		return policy.Deny, r, broker.StoreError(err)
	}
	// Facts of an older version have other members, and so another digest.
	var then broker.AsAsked
	if f, err := r.Sheet(); err == nil && f.Then != nil {
		then = *f.Then
	}
	if d.Ask != nil {
		r.Approval = ve.approvals.wanted(d, ve.approvals.assess(w, r.TTL, then).Result)
	}
	if r.Facts, r.Digest, err = broker.Seal(ve.approvals.factsOf(r, w, d, then)); err != nil {
		return policy.Deny, r, broker.StoreError(err)
	}
	return d.Effect, r, nil
}

// Again returns a request with the facts and digest that it would have if it were made now, and the
// policy's effect on it. An approval counts only while the facts are those that the approver saw.
func (ve *Verdicts) Again(ctx context.Context, who broker.Principal, id string) (policy.Effect, broker.Request, error) {
	r, err := ve.listings.Request(ctx, who, id)
	if err != nil {
		return policy.Deny, broker.Request{}, err
	}
	return ve.again(ctx, r)
}

// PresenceByPasskey is Presence.By of a proof by passkey.
const PresenceByPasskey = "passkey"

// MissingProofs returns the proofs that v lacks to approve r. The risk is that of the request as
// asked, also for a narrower approval. Break-glass demands what high risk demands.
func (ve *Verdicts) MissingProofs(r broker.Request, v broker.Verdict) []string {
	level := r.Level()
	if v.BreakGlass != "" {
		level = risk.High
	}
	var out []string
	if level == risk.High && v.Target != r.Target() {
		out = append(out, broker.MissingTarget)
	}
	from := ve.presenceFrom
	if from.Rank() == 0 {
		from = risk.High
	}
	if level.Rank() >= from.Rank() && !v.Present {
		out = append(out, broker.MissingPresence)
	}
	return out
}

// demand refuses an approval that lacks a proof which the risk of r demands.
func (ve *Verdicts) demand(r broker.Request, v broker.Verdict) error {
	missing := ve.MissingProofs(r, v)
	if len(missing) == 0 {
		return nil
	}
	e := broker.E(broker.StepUpRequired, "Request "+r.ID+" is of "+string(r.Level())+" risk, and this approval lacks: "+strings.Join(missing, ", ")+". Approve it on the request's page of the console; `ebb console` prints a link that signs you in.", nil)
	if v.Present {
		e.Public = "target must be the name of the request's target, exactly as its page shows it."
	}
	e.Missing = missing
	return e
}
