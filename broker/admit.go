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
func proofClaim(p Possession, now time.Time) []Claim {
	if p.Proof == nil {
		return nil
	}
	// A proof that was about to get too old when it was checked, and waited, is
	// still no replay: its claim must not end before it is made.
	until := p.Proof.Until
	if soon := now.Add(10 * time.Second); until.Before(soon) {
		until = soon
	}
	return []Claim{{Key: "dpop:" + p.Proof.ReplayKey, Value: "1", Until: until}}
}

// forgotten refuses a proof that was made before the ledger began to remember
// proofs, at the start of this process or after a loss, also one that another
// replica has noticed and cured: it may have been used
// (RFC 9449 section 11.1).
func (b *Broker) forgotten(p Possession) error {
	b.reckon()
	if p.Proof != nil && p.Proof.IAT.Unix() < b.since.Load() {
		return E(InvalidProof, "The DPoP proof is older than the memory of the broker, which has just started. Make a new one.", nil)
	}
	return nil
}

// reckon moves since when the ledger has lost something meanwhile.
func (b *Broker) reckon() {
	if n := b.cfg.Ledger.Losses(); b.losses.Swap(n) != n {
		b.since.Store(b.now().Unix())
	}
}

// evidenceClaim ties a piece of evidence to the first key that uses it.
// Workload tokens are legitimately reused until they expire; with another key
// they are replayed. Evidence that is bound to a key by itself needs no claim.
func evidenceClaim(id attest.Identity, jkt string) []Claim {
	if id.ReplayID == "" || id.Key != "" {
		return nil
	}
	return []Claim{{Key: "ev:" + hashOf(id.ReplayID), Value: jkt, Until: id.ReplayUntil, Again: true}}
}

// usedEvidence is a claim of evidence on the record, where a refill finds it.
type usedEvidence struct {
	Key   string    `json:"key"`
	JKT   string    `json:"jkt"`
	Until time.Time `json:"until"`
}

// used is nil for evidence that needs no claim.
func used(id attest.Identity, jkt string) *usedEvidence {
	c := evidenceClaim(id, jkt)
	if len(c) == 0 {
		return nil
	}
	return &usedEvidence{Key: c[0].Key, JKT: jkt, Until: c[0].Until}
}

func (b *Broker) claimProof(ctx context.Context, p Possession) error {
	if err := b.forgotten(p); err != nil {
		return err
	}
	return b.claim1(ctx, proofClaim(p, b.now()), InvalidProof, "The DPoP proof was used before. Make a new one for each request.")
}

func (b *Broker) claimEvidence(ctx context.Context, id attest.Identity, jkt string) error {
	return b.claim1(ctx, evidenceClaim(id, jkt), Invalid, "The evidence was used before with another key.")
}

// proofTime bounds a claim by which somebody proves who they are.
const proofTime = 800 * time.Millisecond

func (b *Broker) claim1(ctx context.Context, c []Claim, kind Kind, public string) error {
	if len(c) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	_, err := b.cfg.Ledger.Admit(ctx, Admission{Claims: c})
	if errors.Is(err, ErrForgotten) {
		return forgottenError(err)
	}
	if errors.Is(err, ErrClaimed) {
		b.note(ctx, b.entry(audit.TokenReplayed, unknown, map[string]string{"what": string(kind)}))
		return E(kind, public, err)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// forgottenError is for what may have been used before the clock was set back.
func forgottenError(err error) *Error {
	return &Error{Kind: Unavailable, Cause: err, RetryAfter: 10 * time.Second,
		Public: "The clock of this ebb was set back, so ebb cannot tell whether this was used before. Try again later; the operator finds the state of the clock in /readyz."}
}

// budget is the immutable part of a task that its rates need.
type budget struct {
	runner, owner string
	limit         int
}

// purpose says what a request is for: giving credentials back has a rate of its
// own, so that no flood of mints is in its way (I6).
type purpose string

const (
	toMint purpose = "mint"
	toEnd  purpose = "end"
)

// endsPerMinute is how many credentials a sandbox may give back, or as many as it
// may mint if that is more.
const endsPerMinute = 600

// rates counts a request against its task and the task's owner, so that one
// task cannot starve another (I12). The owner is what the runner wrote: one
// runner cannot spend what another one's tasks need.
func (b *Broker) rates(why purpose, taskID string, g budget) []Rate {
	if why == toEnd {
		return []Rate{{Key: "end:" + taskID, Limit: max(endsPerMinute, g.limit), Per: time.Minute}}
	}
	return []Rate{
		{Key: "task:" + taskID, Limit: g.limit, Per: time.Minute},
		{Key: "owner:" + hashOf(g.runner, g.owner), Limit: b.cfg.Limits.OwnerPerMin, Per: time.Minute},
	}
}

// limitKey names what a task asks for one purpose. Until it has a share again, its
// requests are refused here: each of them would be remembered in the ledger that
// all share.
type limitKey struct {
	taskID  string
	purpose purpose
}

func tooOften(r *RateError) *Error {
	return &Error{Kind: TooMany, Public: "This task or its owner asks too often. Wait, then try again.", Cause: r, RetryAfter: max(r.RetryAfter, time.Millisecond)}
}

// limit records and refuses what a task asks too often. The caller has shown that
// it belongs to the task.
func (b *Broker) limit(ctx context.Context, k limitKey, r *RateError) *Error {
	e := tooOften(r)
	b.noteSeldom(ctx, b.taskEntry(audit.TokenLimited, sandboxOf(k.taskID), k.taskID, map[string]any{"purpose": k.purpose, "retry_after_ms": e.RetryAfter.Milliseconds()}))
	return e
}

// admit claims the proof and the evidence, counts the request, and returns the
// task: one round trip, or two for a task this process has not seen lately. A
// task that is over is refused here, so that nothing behind it needs to ask.
func (b *Broker) admit(ctx context.Context, why purpose, taskID string, p Possession, fault Kind, more ...Claim) (Live, error) {
	if b.down.Load() {
		return Live{}, unavailable(ErrLost)
	}
	if err := b.forgotten(p); err != nil {
		return Live{}, err
	}
	if why == toMint {
		if err := b.steadyClock(); err != nil {
			return Live{}, err
		}
	}
	live, err := b.admitCounted(ctx, why, Admission{TaskID: taskID, Claims: append(proofClaim(p, b.now()), more...)})
	limited, is := errors.AsType[*Error](err)
	switch {
	case is:
		return Live{}, limited
	case err == nil:
	case errors.Is(err, ErrForgotten): // nobody's fault
		return Live{}, forgottenError(err)
	case errors.Is(err, ErrClaimed):
		b.violation(ctx, taskID)
		return Live{}, E(InvalidProof, "The DPoP proof was used before, or the evidence with another key. Make a new proof for each request.", err)
	case errors.Is(err, ErrNotFound):
		return Live{}, E(fault, "There is no such task, or it is complete.", err)
	default:
		return Live{}, unavailable(err)
	}
	if b.over(live) {
		return Live{}, E(fault, "The task is complete. Nothing mints for it again.", ErrTaskClosed)
	}
	if why == toEnd || len(live.Ancestors) == 0 {
		return live, nil
	}
	// What a delegate asks counts for those above it too.
	live, err = b.underAncestors(live, func(a Admission) (Live, error) { return b.admitCounted(ctx, why, a) })
	limited, is = errors.AsType[*Error](err)
	switch {
	case err == nil:
		return live, nil
	case is:
		return Live{}, limited
	case errors.Is(err, ErrTaskClosed):
		return Live{}, E(fault, "The task that delegated to this one is complete. Nothing mints for it again.", err)
	}
	return Live{}, ledgerError(err)
}

// admitCounted makes an admission to a task that counts against its rates. What it
// asks too often is an *Error; every other error is the ledger's.
func (b *Broker) admitCounted(ctx context.Context, why purpose, a Admission) (Live, error) {
	full := limitKey{a.TaskID, why}
	if until, _ := b.limited.Get(full); b.now().Before(until) {
		return Live{}, b.limit(ctx, full, &RateError{RetryAfter: until.Sub(b.now())})
	}
	g, seen := b.budgets.Get(a.TaskID)
	if seen {
		a.Rates = b.rates(why, a.TaskID, g)
	}
	live, err := b.cfg.Ledger.Admit(ctx, a)
	if err == nil && !seen && !b.over(live) {
		g = budget{live.Runner, live.Owner, live.Caps.MintsPerMinute}
		b.budgets.Add(a.TaskID, g)
		_, err = b.cfg.Ledger.Admit(ctx, Admission{Rates: b.rates(why, a.TaskID, g)})
	}
	if r, ok := errors.AsType[*RateError](err); ok {
		b.limited.Add(full, b.now().Add(r.RetryAfter))
		return Live{}, b.limit(ctx, full, r)
	}
	return live, err
}

// over reports whether nothing mints for a task any more.
func (b *Broker) over(t Live) bool {
	return t.State == TaskClosed || !b.now().Before(t.Deadline) || b.tombs.has(t.ID, b.now())
}

// recordedViolations is how many violations of one task are always recorded;
// what goes beyond shares the bound of strangers.
const recordedViolations = 20

// violation counts what only an attacker or a bug does, and records it; policy
// sees the count, and a refill counts the records. The caller has shown that it
// belongs to the task, so a flood of strangers cannot keep this off the record.
func (b *Broker) violation(ctx context.Context, taskID string) {
	live, err := b.countAll(ctx, taskID, Touch{Violations: 1})
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrTaskClosed) {
		b.cfg.Logger.WarnContext(ctx, "a violation could not be counted", "task_id", taskID, "error", err)
	}
	actor := unknown
	if err == nil && live.Violations <= recordedViolations {
		actor = sandboxOf(taskID)
	}
	b.note(ctx, b.taskEntry(audit.TokenReplayed, actor, taskID, nil))
}
