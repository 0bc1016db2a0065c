package broker

import (
	"cmp"
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

// Bounds of what is remembered of an attestor: callers, and those of one place.
const (
	maxSilent    = 64
	maxOfPlace   = 8
	silentAround = 2 // places whose callers could not be judged, that are an attestor which is down
)

// silences knows whose evidence attestors last could not judge, as this process has seen
// it: by attestor, then by the caller's key. One caller may be able to make its own
// evidence impossible to judge, with as many keys as it likes; an attestor that is down,
// or in doubt, fails callers in several places.
type silences struct {
	mu    sync.Mutex
	since map[string]map[string]silence
}

// silence is one caller of which an attestor could say nothing.
type silence struct {
	at    time.Time
	place string // where it was (Possession.From)
}

// note takes in what came of a judgement. A rejection is one; a caller that went away, or
// was turned away, says nothing of the attestor.
func (v *silences) note(ctx context.Context, attestor string, p Possession, at time.Time, err error) {
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
		v.since = map[string]map[string]silence{}
	}
	known := v.since[attestor]
	if known == nil {
		known = map[string]silence{}
		v.since[attestor] = known
	}
	s := silence{at: at, place: cmp.Or(p.From, "the caller "+p.Key.JKT)}
	same := 0
	for _, o := range known {
		if o.place == s.place {
			same++
		}
	}
	if _, again := known[p.Key.JKT]; again || len(known) < maxSilent && same < maxOfPlace {
		known[p.Key.JKT] = s
	}
}

// down says whether nobody can vouch for a sandbox: its own evidence could not be judged,
// or that of others in two places.
func (v *silences) down(s Sandbox, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	places := map[string]bool{}
	for jkt, o := range v.since[s.Attestor] {
		switch {
		case now.Sub(o.at) >= unjudgedFor:
			delete(v.since[s.Attestor], jkt)
		case jkt == s.JKT:
			return true
		default:
			places[o.place] = true
		}
	}
	return len(places) >= silentAround
}

// grounded is why nothing of a sandbox can be approved at the moment; nil = it can.
func (b *Broker) grounded(ctx context.Context, s Sandbox) error {
	if _, known := b.cfg.Attestors[s.Attestor]; !known {
		return E(Conflict, "The attestor that vouched for this sandbox is not configured here any more: nothing of it can be approved.", nil)
	}
	if b.silent.down(s, b.now()) {
		return &Error{Kind: Unavailable, Public: "The attestor of this sandbox cannot judge evidence at the moment: nothing of it can be approved.", Cause: ErrUnjudged, RetryAfter: unjudgedFor}
	}
	err := b.cfg.Journal.Writable(ctx)
	if err == nil {
		return nil
	}
	return &Error{Kind: Unavailable, Public: "The record cannot be written at the moment: nothing can be approved.", Cause: errors.Join(ErrUnwritten, err), RetryAfter: 5 * time.Second}
}
