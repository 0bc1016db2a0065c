package broker

import (
	"context"
	"errors"
	"time"

	"ebb/attest"
	"ebb/broker/audit"
)

// proofClaim makes a DPoP proof single-use (RFC 9449 section 11.1), on every
// replica.
func proofClaim(p Possession) []Claim {
	if p.Proof == nil {
		return nil
	}
	return []Claim{{Key: "dpop:" + p.Proof.ReplayKey, Value: "1", Until: p.Proof.Until}}
}

// evidenceClaim ties a piece of evidence to the first key that uses it.
// Workload tokens are legitimately reused until they expire; with another key
// they are replayed. Evidence that is bound to a key by itself needs no claim.
func evidenceClaim(id attest.Identity, jkt string) []Claim {
	if id.ReplayID == "" || id.Key != "" {
		return nil
	}
	return []Claim{{Key: "ev:" + hashOf(id.Attestor, id.ReplayID), Value: jkt, Until: id.ReplayUntil, Again: true}}
}

func (b *Broker) claimProof(ctx context.Context, p Possession) error {
	return b.claim1(ctx, proofClaim(p), InvalidProof, "The DPoP proof was used before. Make a new one for each request.")
}

func (b *Broker) claimEvidence(ctx context.Context, id attest.Identity, jkt string) error {
	return b.claim1(ctx, evidenceClaim(id, jkt), Invalid, "The evidence was used before with another key.")
}

func (b *Broker) claim1(ctx context.Context, c []Claim, kind Kind, public string) error {
	if len(c) == 0 {
		return nil
	}
	_, err := b.cfg.Ledger.Admit(ctx, Admission{Claims: c})
	if errors.Is(err, ErrClaimed) {
		b.note(ctx, b.entry(audit.TokenReplayed, unknown, map[string]string{"what": string(kind)}))
		return E(kind, public, err)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// budget is the immutable part of a task that its rates need.
type budget struct {
	owner string
	limit int
}

// rates counts a request against its task and the task's owner, so that one
// task cannot starve another (I12).
func (b *Broker) rates(taskID string, g budget) []Rate {
	return []Rate{
		{Key: "task:" + taskID, Limit: g.limit, Per: time.Minute},
		{Key: "owner:" + hashOf(g.owner), Limit: b.cfg.Limits.OwnerPerMin, Per: time.Minute},
	}
}

// admit claims the proof and the evidence, counts the request, and returns the
// task: one round trip, or two for a task this process has not seen lately. A
// task that is over is refused here, so that nothing behind it needs to ask.
func (b *Broker) admit(ctx context.Context, taskID string, p Possession, fault Kind, more ...Claim) (Live, error) {
	if b.down.Load() {
		return Live{}, unavailable(ErrLost)
	}
	a := Admission{TaskID: taskID, Claims: append(proofClaim(p), more...)}
	g, seen := b.budgets.Get(taskID)
	if seen {
		a.Rates = b.rates(taskID, g)
	}
	live, err := b.cfg.Ledger.Admit(ctx, a)
	over := func() bool {
		return live.State == TaskClosed || !b.now().Before(live.Deadline) || b.tombs.has(taskID, b.now())
	}
	if err == nil && !seen && !over() {
		g = budget{live.Owner, live.Caps.MintsPerMinute}
		b.budgets.Add(taskID, g)
		_, err = b.cfg.Ledger.Admit(ctx, Admission{Rates: b.rates(taskID, g)})
	}
	if r, ok := errors.AsType[*RateError](err); ok {
		return Live{}, &Error{Kind: TooMany, Public: "This task or its owner asks too often. Wait, then try again.", Cause: err, RetryAfter: r.RetryAfter}
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrClaimed):
		b.violation(ctx, taskID)
		b.note(ctx, b.taskEntry(audit.TokenReplayed, unknown, taskID, nil))
		return Live{}, E(InvalidProof, "The DPoP proof was used before, or the evidence with another key. Make a new proof for each request.", err)
	case errors.Is(err, ErrNotFound):
		return Live{}, E(fault, "There is no such task, or it is complete.", err)
	default:
		return Live{}, unavailable(err)
	}
	if over() {
		return Live{}, E(fault, "The task is complete. Nothing mints for it again.", ErrTaskClosed)
	}
	return live, nil
}

// violation counts what only an attacker or a bug does; policy sees the count.
func (b *Broker) violation(ctx context.Context, taskID string) {
	if _, err := b.cfg.Ledger.Touch(ctx, taskID, Touch{Violations: 1}); err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrTaskClosed) {
		b.cfg.Logger.WarnContext(ctx, "a violation could not be counted", "task_id", taskID, "error", err)
	}
}
