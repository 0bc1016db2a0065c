package kernel

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/pace"
)

// Admitter admits requests. One round trip to the LiveStore claims the proof and the evidence,
// counts the rates and reads the task (DESIGN section 4, step 3). It fails closed.
type Admitter struct {
	LiveStore broker.LiveStore
	limits    broker.Limits
	logger    *slog.Logger
	nonces    *dpop.Nonces
	budgets   *expirable.LRU[string, Budget]
	Live      *LiveState
	revoked   *RevokedSet

	Clock *Timekeeper
	log   *Recorder
	tasks tasks

	limited *expirable.LRU[limitKey, time.Time]
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (ad *Admitter) Open() {
	ad.limited = expirable.NewLRU[limitKey, time.Time](4096, nil, time.Minute)
}

// proofClaim makes a DPoP proof single-use on every replica (RFC 9449 section 11.1).
func proofClaim(p broker.Possession, now time.Time) []broker.Claim {
	if p.Proof == nil {
		return nil
	}
	// A proof may expire while its request waits. Its claim must not expire before it is made.
	until := p.Proof.Until
	if soon := now.Add(10 * time.Second); until.Before(soon) {
		until = soon
	}
	return []broker.Claim{{Key: "dpop:" + p.Proof.ReplayKey, Value: "1", Until: until}}
}

// EvidenceClaim ties a piece of evidence to the first key that uses it. Workload tokens may be
// used again until they expire; with another key the use is a replay. Evidence that is itself
// bound to a key needs no claim.
func EvidenceClaim(id attest.Identity, jkt string) []broker.Claim {
	if id.ReplayID == "" || id.Key != "" {
		return nil
	}
	return []broker.Claim{{Key: "ev:" + broker.HashOf(id.ReplayID), Value: jkt, Until: id.ReplayUntil, Again: true}}
}

// UsedEvidence is a claim of evidence in the audit log, from which a refill restores it.
type UsedEvidence struct {
	Key   string    `json:"key"`
	JKT   string    `json:"jkt"`
	Until time.Time `json:"until"`
}

// Used returns the claim of a piece of evidence, nil if it needs none.
func Used(id attest.Identity, jkt string) *UsedEvidence {
	c := EvidenceClaim(id, jkt)
	if len(c) == 0 {
		return nil
	}
	return &UsedEvidence{Key: c[0].Key, JKT: jkt, Until: c[0].Until}
}

func (ad *Admitter) ClaimProof(ctx context.Context, p broker.Possession) error {
	if err := ad.forgotten(p); err != nil {
		return err
	}
	if err := ad.Claim1(ctx, proofClaim(p, ad.Clock.Now()), broker.InvalidProof, "The DPoP proof was used before. Make a new one for each request."); err != nil {
		return err
	}
	return ad.forgotten(p) // the live store may have lost data between the two calls
}

func (ad *Admitter) ClaimEvidence(ctx context.Context, id attest.Identity, jkt string) error {
	return ad.Claim1(ctx, EvidenceClaim(id, jkt), broker.Invalid, "The evidence was used before with another key.")
}

// ProofTime bounds a claim that authenticates a caller.
const ProofTime = 800 * time.Millisecond

func (ad *Admitter) Claim1(ctx context.Context, c []broker.Claim, kind broker.Kind, public string) error {
	if len(c) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ProofTime)
	defer cancel()
	_, err := ad.LiveStore.Admit(ctx, broker.Admission{Claims: c})
	if errors.Is(err, broker.ErrForgotten) {
		return ForgottenError(err)
	}
	if errors.Is(err, broker.ErrClaimed) {
		ad.log.Note(ctx, ad.log.NewEntry(audit.TokenReplayed, Unknown, map[string]string{"what": string(kind)}))
		return broker.E(kind, public, err)
	}
	if err != nil {
		return broker.StoreError(err)
	}
	return nil
}

// ForgottenError is the error for a proof that may have been used before the clock was set
// back.
func ForgottenError(err error) *broker.Error {
	return &broker.Error{Kind: broker.Unavailable, Cause: err, RetryAfter: 10 * time.Second,
		Public: "The clock of this ebb was set back, so that ebb cannot tell whether this was used before. Try again later; /readyz shows the operator the state of the clock."}
}

// Budget is the immutable part of a task that its rates need.
type Budget struct {
	Runner, owner string
	limit         int
}

// Purpose is the purpose of a request. Ending credentials has a rate of its own, so that many
// mints do not block it (I6).
type Purpose string

const (
	ToMint Purpose = "mint"
	ToEnd  Purpose = "end"
)

// EndsPerMinute is the number of credentials that a sandbox may revoke in a minute, or its
// limit of mints if that is higher.
const EndsPerMinute = 600

// rates returns the rates of a request: of its task and of the task's owner, so that one task
// cannot starve another (I12). The runner chooses the owner's name; its key includes the
// runner, so that one runner cannot use up the rate of another runner's tasks.
func (ad *Admitter) rates(why Purpose, taskID string, g Budget) []broker.Rate {
	if why == ToEnd {
		return []broker.Rate{{Key: "end:" + taskID, Limit: max(EndsPerMinute, g.limit), Per: time.Minute}}
	}
	return []broker.Rate{
		{Key: "task:" + taskID, Limit: g.limit, Per: time.Minute},
		{Key: "owner:" + broker.HashOf(g.Runner, g.owner), Limit: ad.limits.OwnerPerMin, Per: time.Minute},
	}
}

// limitKey names a task and a purpose. While a task is over its rate, its requests are refused
// in this process, because each would use memory in the shared live store.
type limitKey struct {
	taskID  string
	purpose Purpose
}

func TooOften(r *broker.RateError) *broker.Error {
	return &broker.Error{Kind: broker.TooMany, Public: "This task or its owner sends too many requests. Wait, then try again.", Cause: r, RetryAfter: max(r.RetryAfter, time.Millisecond)}
}

// limit records and refuses a request over the task's rate. The caller has proved that it
// belongs to the task.
func (ad *Admitter) limit(ctx context.Context, k limitKey, r *broker.RateError) *broker.Error {
	e := TooOften(r)
	ad.log.NoteSeldom(ctx, ad.log.TaskEntry(audit.TokenLimited, broker.SandboxID(k.taskID), k.taskID, map[string]any{"purpose": k.purpose, "retry_after_ms": e.RetryAfter.Milliseconds()}))
	return e
}

// Admit claims the proof and the evidence, counts the request, and returns the task: one round
// trip, or two for a task that this process has not seen lately. A closed task is refused here,
// so that callers need not check.
func (ad *Admitter) Admit(ctx context.Context, why Purpose, taskID string, p broker.Possession, fault broker.Kind, more ...broker.Claim) (broker.Live, error) {
	if ad.Live.Incomplete.Load() {
		return broker.Live{}, broker.StoreError(broker.ErrLost)
	}
	if err := ad.forgotten(p); err != nil {
		return broker.Live{}, err
	}
	if why == ToMint {
		if err := ad.Clock.SteadyClock(); err != nil {
			return broker.Live{}, err
		}
	}
	live, err := ad.admitCounted(ctx, why, broker.Admission{TaskID: taskID, Claims: append(proofClaim(p, ad.Clock.Now()), more...)})
	if err == nil {
		err = ad.forgotten(p) // the live store may have lost data meanwhile
	}
	limited, is := errors.AsType[*broker.Error](err)
	switch {
	case is:
		return broker.Live{}, limited
	case err == nil:
	case errors.Is(err, broker.ErrForgotten): // no violation: the clock was set back
		return broker.Live{}, ForgottenError(err)
	case errors.Is(err, broker.ErrClaimed):
		ad.violation(ctx, taskID)
		return broker.Live{}, broker.E(broker.InvalidProof, "The DPoP proof was used before, or the evidence with another key. Make a new proof for each request.", err)
	case errors.Is(err, broker.ErrNotFound):
		return broker.Live{}, broker.E(fault, "There is no task "+broker.Quoted(taskID)+", or it has ended.", err).Then("ask the runner for a new task and a new ticket")
	default:
		return broker.Live{}, broker.StoreError(err)
	}
	if ad.Over(live) {
		t := live.Task
		if ad.Clock.Now().Before(t.Deadline) { // its end is recorded in this process alone, without a cause
			t.Deadline = time.Time{}
		}
		return broker.Live{}, ClosedFor(fault, t)
	}
	if why == ToEnd || len(live.Ancestors) == 0 {
		return live, nil
	}
	// A delegated task's requests count for its ancestors too.
	live, err = ad.tasks.UnderAncestors(live, func(a broker.Admission) (broker.Live, error) { return ad.admitCounted(ctx, why, a) })
	limited, is = errors.AsType[*broker.Error](err)
	switch {
	case err == nil:
		return live, nil
	case is:
		return broker.Live{}, limited
	case errors.Is(err, broker.ErrTaskClosed):
		return broker.Live{}, broker.E(fault, "The task that delegated to this one has ended. No token is issued for it any more.", err)
	}
	return broker.Live{}, LiveStoreError(err)
}

// ClosedFor is the error for a sandbox whose task has ended.
func ClosedFor(fault broker.Kind, t broker.Task) *broker.Error {
	return broker.E(fault, Ended(t)+" No token is issued for it any more.", broker.ErrTaskClosed).Then("ask the runner for a new task and a new ticket")
}

// admitCounted makes an admission that counts against the task's rates. Over the rate it
// returns an *Error; every other error is the live store's.
func (ad *Admitter) admitCounted(ctx context.Context, why Purpose, a broker.Admission) (broker.Live, error) {
	full := limitKey{a.TaskID, why}
	if until, _ := ad.limited.Get(full); ad.Clock.Now().Before(until) {
		return broker.Live{}, ad.limit(ctx, full, &broker.RateError{RetryAfter: until.Sub(ad.Clock.Now())})
	}
	g, seen := ad.budgets.Get(a.TaskID)
	if seen {
		a.Rates = ad.rates(why, a.TaskID, g)
	}
	live, err := ad.LiveStore.Admit(ctx, a)
	if err == nil && !seen && !ad.Over(live) {
		g = Budget{live.Runner, live.Owner, live.Caps.MintsPerMinute}
		ad.budgets.Add(a.TaskID, g)
		_, err = ad.LiveStore.Admit(ctx, broker.Admission{Rates: ad.rates(why, a.TaskID, g)})
	}
	if r, ok := errors.AsType[*broker.RateError](err); ok {
		ad.limited.Add(full, ad.Clock.Now().Add(r.RetryAfter))
		return broker.Live{}, ad.limit(ctx, full, r)
	}
	return live, err
}

// Over reports whether a task has ended, so that no token is issued for it.
func (ad *Admitter) Over(t broker.Live) bool {
	return t.State == broker.TaskClosed || !ad.Clock.Now().Before(t.Deadline) || ad.revoked.Has(t.ID, ad.Clock.Now())
}

// recordedViolations is how many violations of one task are always recorded; further ones share
// the limit of unknown callers.
const recordedViolations = 20

// violation counts and records an action that only an attacker or a bug takes. Policies see the
// count, and a refill counts the entries. The caller has proved that it belongs to the task, so
// that requests of strangers cannot keep this entry out of the audit log.
func (ad *Admitter) violation(ctx context.Context, taskID string) {
	live, err := ad.tasks.CountAll(ctx, taskID, broker.Touch{Violations: 1})
	if err != nil && !errors.Is(err, broker.ErrNotFound) && !errors.Is(err, broker.ErrTaskClosed) {
		ad.logger.WarnContext(ctx, "counting a violation failed", "task_id", taskID, "error", err)
	}
	actor := Unknown
	if err == nil && live.Violations <= recordedViolations {
		actor = broker.SandboxID(taskID)
	}
	ad.log.Note(ctx, ad.log.TaskEntry(audit.TokenReplayed, actor, taskID, nil))
}

const (
	// CrowdPlaces is how many mints, and how many introspections, are processed at one time.
	// One address or principal has at most half of them.
	CrowdPlaces = 256
	// CrowdWait is how long a request waits for a slot. With the processing of the requests
	// before it, a response then takes less than a second; a client that is told to try again
	// is served sooner than one that waits behind all others.
	CrowdWait = 500 * time.Millisecond
)

// Crowd limits the requests that use the processor and the stores. Ends, revocations and
// heartbeats need no slot, and no slot is held while a third party is called.
type Crowd struct{ Mints, Introspections *pace.Gate }

func NewCrowd() *Crowd { return &Crowd{pace.NewGate(CrowdPlaces), pace.NewGate(CrowdPlaces)} }
