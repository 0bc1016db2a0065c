package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

const (
	// keep is how long an entry stays after its certificate has expired: for hosts
	// whose clock is behind.
	keep = 10 * time.Minute
	// fresh is the time for which one reading of the database is used again. The list is public,
	// and requests for it must not load the database.
	fresh = time.Second
	// readTime bounds one reading.
	readTime = 5 * time.Second
)

// Ended yields the leases of this provider that ebb refuses already and that
// expire, or expired, after a moment. Of a Target only LeaseID and ExpiresAt are
// needed.
type Ended func(ctx context.Context, after time.Time, yield func(provider.Target) error) error

// revoked is what the KRL says: the leases that the record knows, and those that
// this process was told to revoke since. The record alone is enough; the second
// part spares one reading of it for each revocation.
type revoked struct {
	ended Ended
	now   func() time.Time
	turn  chan struct{} // held by who reads the record

	mu    sync.Mutex
	told  map[uint64]time.Time // serial -> when its entry may go
	known map[uint64]time.Time
	read  time.Time   // last attempt to read the record
	err   error       // of it
	list  []krl.Range // sorted; nil = to be made anew
}

func newRevoked(ended Ended, now func() time.Time) *revoked {
	return &revoked{ended: ended, now: now, turn: make(chan struct{}, 1), told: map[uint64]time.Time{}}
}

// add revokes a serial until its certificate has expired everywhere.
func (r *revoked) add(serial uint64, expires time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[serial], r.list = expires.Add(keep), nil
}

// serials are all that are revoked, no older than fresh, or with newly than the
// call. It fails when the record cannot be read: half a list would revive
// certificates.
func (r *revoked) serials(ctx context.Context, newly bool) ([]krl.Range, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := r.now()
	r.mu.Lock()
	stale := newly || r.read.IsZero() || now.Sub(r.read) >= fresh || now.Before(r.read)
	r.mu.Unlock()
	if stale {
		known, err := r.load(ctx, now)
		r.mu.Lock()
		r.read, r.err, r.list = now, err, nil
		if err == nil {
			r.known = known
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	if r.list == nil {
		r.list = r.collect(now)
	}
	return r.list, nil
}

// collect returns the ranges sorted. Writing the list then costs little, because anyone can
// request it.
func (r *revoked) collect(now time.Time) []krl.Range {
	maps.DeleteFunc(r.told, func(_ uint64, until time.Time) bool { return now.After(until) })
	out := make([]krl.Range, 0, len(r.known)+len(r.told))
	for _, list := range []map[uint64]time.Time{r.known, r.told} {
		for serial, until := range list {
			if !now.After(until) {
				out = append(out, krl.One(serial))
			}
		}
	}
	slices.SortFunc(out, func(a, b krl.Range) int { return cmp.Compare(a.Lo, b.Lo) })
	return out
}

func (r *revoked) load(ctx context.Context, now time.Time) (map[uint64]time.Time, error) {
	if r.ended == nil {
		return nil, errors.New("ssh provider: there is no record to make a revocation list of")
	}
	// One reading serves all waiting requests. A client that disconnects must not make a
	// revocation fail.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
	defer cancel()
	out := map[uint64]time.Time{}
	err := r.ended(ctx, now.Add(-keep), func(t provider.Target) error {
		out[SerialOf(t.LeaseID)] = t.ExpiresAt.Add(keep)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ssh provider: reading what is revoked: %w", err)
	}
	return out, nil
}
