package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"ebb/attest"
)

// What an approval stands on, beside policy and the ledger: somebody can vouch for the
// sandbox, and the record can be written. Where one of them is down nothing can be
// approved, and people are told before they try (I6). A no needs neither.

// unjudgedFor is how long an attestor that could not judge is taken to be down, unless it
// has judged since.
const unjudgedFor = time.Minute

// silences knows when an attestor last could not judge, as this process has seen it.
type silences struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// note takes in what came of a judgement. A rejection is one; a caller that went away, or
// was turned away, says nothing of the attestor.
func (v *silences) note(ctx context.Context, attestor string, at time.Time, err error) {
	if ctx.Err() != nil || isError(err) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil || errors.Is(err, attest.ErrRejected) {
		delete(v.since, attestor)
		return
	}
	if v.since == nil {
		v.since = map[string]time.Time{}
	}
	v.since[attestor] = at
}

func (v *silences) down(attestor string, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, failed := v.since[attestor]
	return failed && now.Sub(at) < unjudgedFor
}

// grounded is why nothing of a sandbox can be approved at the moment; nil = it can.
func (b *Broker) grounded(ctx context.Context, s Sandbox) error {
	if _, known := b.cfg.Attestors[s.Attestor]; !known {
		return E(Conflict, "The attestor that vouched for this sandbox is not configured here any more: nothing of it can be approved.", nil)
	}
	if b.silent.down(s.Attestor, b.now()) {
		return &Error{Kind: Unavailable, Public: "The attestor of this sandbox cannot judge evidence at the moment: nothing of it can be approved.", Cause: ErrUnjudged, RetryAfter: unjudgedFor}
	}
	// A move of no task: refused by a record that takes writes, and an error of one that
	// does not.
	err := b.cfg.Journal.Append(ctx, Record{MoveTask: &TaskMove{ID: "none", State: TaskOpen, At: b.now()}})
	if err == nil || errors.Is(err, ErrNotFound) {
		return nil
	}
	return &Error{Kind: Unavailable, Public: "The record cannot be written at the moment: nothing can be approved.", Cause: errors.Join(ErrUnwritten, err), RetryAfter: 5 * time.Second}
}
