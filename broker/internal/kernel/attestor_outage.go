package kernel

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
)

// UnjudgedFor is how long an attestor counts as down after it could not check evidence, unless
// it has checked other evidence since.
const UnjudgedFor = time.Minute

// Bounds of the failures remembered for one attestor: all callers, and callers of one address.
const (
	MaxSilent    = 64
	maxOfPlace   = 8
	silentAround = 2 // addresses with failures at which the attestor itself counts as down
)

// AttestorOutages remembers, for this process, the callers whose evidence an attestor could not
// check: by attestor, then by the caller's key. A single caller may be able to make its own
// evidence uncheckable, with any number of keys; an attestor that is down fails callers at
// several addresses.
type AttestorOutages struct {
	mu    sync.Mutex
	Since map[string]map[string]silence
}

// silence is one caller whose evidence an attestor could not check.
type silence struct {
	at    time.Time
	place string // the caller's address (Possession.From)
}

// Note records the result of a check. A rejection counts as a check. A request that was
// cancelled or refused by a rate limit says nothing about the attestor.
func (v *AttestorOutages) Note(ctx context.Context, attestor string, p broker.Possession, at time.Time, err error) {
	if ctx.Err() != nil || broker.IsError(err) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil || errors.Is(err, attest.ErrRejected) {
		delete(v.Since, attestor)
		return
	}
	if v.Since == nil {
		v.Since = map[string]map[string]silence{}
	}
	known := v.Since[attestor]
	if known == nil {
		known = map[string]silence{}
		v.Since[attestor] = known
	}
	s := silence{at: at, place: cmp.Or(p.From, "the caller "+p.Key.JKT)}
	same := 0
	for _, o := range known {
		if o.place == s.place {
			same++
		}
	}
	if _, again := known[p.Key.JKT]; again || len(known) < MaxSilent && same < maxOfPlace {
		known[p.Key.JKT] = s
	}
}

// Down reports whether a sandbox cannot be attested at the moment: its own evidence could not
// be checked, or that of callers at two addresses.
func (v *AttestorOutages) Down(s broker.Sandbox, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	places := map[string]bool{}
	for jkt, o := range v.Since[s.Attestor] {
		switch {
		case now.Sub(o.at) >= UnjudgedFor:
			delete(v.Since[s.Attestor], jkt)
		case jkt == s.JKT:
			return true
		default:
			places[o.place] = true
		}
	}
	return len(places) >= silentAround
}
