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

// unjudgedFor is how long it counts that an attestor could not judge, unless it has judged
// since.
const unjudgedFor = time.Minute

// maxSilent bounds how many callers are remembered of an attestor.
const maxSilent = 64

// silences knows whose evidence attestors last could not judge, as this process has seen
// it: by attestor, then by the caller's key. One caller may be able to make its own
// evidence impossible to judge; an attestor that is down, or in doubt, fails several.
type silences struct {
	mu    sync.Mutex
	since map[string]map[string]time.Time
}

// note takes in what came of a judgement. A rejection is one; a caller that went away, or
// was turned away, says nothing of the attestor.
func (v *silences) note(ctx context.Context, attestor, jkt string, at time.Time, err error) {
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
		v.since = map[string]map[string]time.Time{}
	}
	if v.since[attestor] == nil {
		v.since[attestor] = map[string]time.Time{}
	}
	if len(v.since[attestor]) < maxSilent {
		v.since[attestor][jkt] = at
	}
}

// down says whether nobody can vouch for a sandbox: its own evidence could not be judged,
// or that of two others.
func (v *silences) down(s Sandbox, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	others := 0
	for jkt, at := range v.since[s.Attestor] {
		switch {
		case now.Sub(at) >= unjudgedFor:
			delete(v.since[s.Attestor], jkt)
		case jkt == s.JKT:
			return true
		default:
			others++
		}
	}
	return others >= 2
}

// grounded is why nothing of a sandbox can be approved at the moment; nil = it can.
func (b *Broker) grounded(ctx context.Context, s Sandbox) error {
	if _, known := b.cfg.Attestors[s.Attestor]; !known {
		return E(Conflict, "The attestor that vouched for this sandbox is not configured here any more: nothing of it can be approved.", nil)
	}
	if b.silent.down(s, b.now()) {
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
