package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"ebb/attest/clock"
	"ebb/attest/dpop"
)

// Replay remembers proofs (RFC 9449 section 11.1). Claim reports whether it is
// the first with p.ReplayKey and remembers it until p.Until; exactly one of
// several concurrent calls is the first. An error means that it could not tell,
// and the request is refused.
type Replay interface {
	Claim(ctx context.Context, p dpop.Proof) (first bool, err error)
}

// ErrFull is returned when no more proofs can be remembered.
var ErrFull = errors.New("verify: the memory for proofs is full")

// ErrBusyKey is returned when one key has used its share of that memory.
var ErrBusyKey = errors.New("verify: one key has sent too many proofs")

// MemoryReplay is a Replay of fixed size in this process. Of what came before
// the process it knows nothing: proofs made before its start are not first.
type MemoryReplay struct {
	max, share int
	clock      *clock.Clock
	started    time.Time

	mu      sync.Mutex
	count   int
	dropped clock.Past      // slots that were dropped, by their end, in slices of time
	slots   map[int64]*slot // by the end of the slice of time they cover, Unix
}

// slot holds the proofs that can be forgotten in the same slice of time. Dropping
// a whole slot costs nothing, however many proofs it holds.
type slot struct {
	seen map[digest]struct{}
	keys map[digest]int
}

// digest is short because a collision can only refuse, and only whoever made it.
type digest [16]byte

func digestOf(s string) digest {
	sum := sha256.Sum256([]byte(s))
	return digest(sum[:16])
}

// slice is the time of one slot, in seconds.
const slice = 16

// NewReplay remembers at most max proofs at a time (0 = 500,000, about 20 MB
// when full), a quarter of them per key. Beyond that it answers ErrFull or
// ErrBusyKey: room is never made by forgetting a proof that is still good. now
// nil is time.Now.
func NewReplay(max int, now func() time.Time) *MemoryReplay {
	if max <= 0 {
		max = 500_000
	}
	return newReplay(max, clock.New(now, nil))
}

func newReplay(max int, c *clock.Clock) *MemoryReplay {
	return &MemoryReplay{max: max, share: (max + 3) / 4, clock: c, started: c.Read().Now.Truncate(time.Second), slots: map[int64]*slot{}}
}

// Claim implements Replay. A proof belongs to one slot by its own signed date,
// so that a replay looks in the same place.
func (m *MemoryReplay) Claim(_ context.Context, p dpop.Proof) (bool, error) {
	proof, key := digestOf(p.ReplayKey), digestOf(p.JKT)
	end := (p.Until.Unix()/slice + 1) * slice
	sure := m.clock.Read().Sure.Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(sure)
	// A slot that was dropped may have held it: the clock was set back.
	if m.dropped.Has(end/slice) || p.IAT.Before(m.started) {
		return false, nil
	}
	s := m.slots[end]
	if s == nil {
		s = &slot{seen: map[digest]struct{}{}, keys: map[digest]int{}}
		m.slots[end] = s
	}
	if _, replayed := s.seen[proof]; replayed {
		return false, nil
	}
	if m.count >= m.max {
		return false, ErrFull
	}
	mine := 0
	for _, o := range m.slots {
		mine += o.keys[key]
	}
	if mine >= m.share {
		return false, ErrBusyKey
	}
	s.seen[proof] = struct{}{}
	s.keys[key]++
	m.count++
	return true, nil
}

func (m *MemoryReplay) drop(now int64) {
	for end, s := range m.slots {
		if end <= now {
			m.count -= len(s.seen)
			m.dropped.Add(end/slice, end/slice)
			delete(m.slots, end)
		}
	}
}
