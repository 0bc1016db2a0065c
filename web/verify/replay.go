package verify

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/attest/dpop"
)

// Replay stores used proofs (RFC 9449 section 11.1). Claim reports whether p is
// the first proof with p.ReplayKey, and stores it until p.Until. Exactly one of
// several concurrent calls is the first. An error means that Claim could not
// tell; the request is then refused.
//
// A Replay that can lose proofs also has the method Memory of Remembering.
type Replay interface {
	Claim(ctx context.Context, p dpop.Proof) (first bool, err error)
}

// Remembering is a Replay whose memory has a beginning. A proof that the memory
// does not cover is refused with use_dpop_nonce and the nonce of the memory
// (RFC 9449 section 9). The client then makes a new proof with that nonce,
// which cannot have been used before.
type Remembering interface {
	Replay
	Memory() dpop.Memory
}

// ErrFull is returned when no more proofs can be stored.
var ErrFull = errors.New("verify: the memory for proofs is full")

// ErrBusyKey is returned when one key has used its share of the memory.
var ErrBusyKey = errors.New("verify: one key has sent too many proofs")

// MemoryReplay is a Remembering of fixed size in this process. It does not know
// proofs from before the start of the process: for a proof that its Memory does
// not cover, Claim returns false.
type MemoryReplay struct {
	max, share int
	clock      *clock.Clock
	memory     dpop.Memory

	mu      sync.Mutex
	count   int
	dropped clock.Past      // ends of dropped slots, in units of slice
	slots   map[int64]*slot // by the end of their time slice, in Unix seconds
}

// slot holds the proofs that expire in the same time slice. Dropping a whole
// slot has a constant cost.
type slot struct {
	seen map[digest]struct{}
	keys map[digest]int
}

// digest is 16 bytes: a collision can only cause a refusal, and only for the
// client that made it.
type digest [16]byte

func digestOf(s string) digest {
	sum := sha256.Sum256([]byte(s))
	return digest(sum[:16])
}

// slice is the time that one slot covers, in seconds.
const slice = 16

// NewReplay stores at most max proofs at a time (0 = 500,000, about 20 MB when
// full), a quarter of them per key. Beyond that it returns ErrFull or
// ErrBusyKey: it never drops a proof that is still valid. now nil is time.Now.
func NewReplay(max int, now func() time.Time) *MemoryReplay {
	if max <= 0 {
		max = 500_000
	}
	return newReplay(max, clock.New(now, nil))
}

func newReplay(max int, c *clock.Clock) *MemoryReplay {
	return &MemoryReplay{max: max, share: (max + 3) / 4, clock: c, memory: dpop.Memory{Began: c.Read().Now, Nonce: rand.Text()}, slots: map[int64]*slot{}}
}

// Memory implements Remembering.
func (m *MemoryReplay) Memory() dpop.Memory { return m.memory }

// Claim implements Replay. The signed time of a proof determines its slot, so
// that a replayed proof is looked up in the same slot.
func (m *MemoryReplay) Claim(_ context.Context, p dpop.Proof) (bool, error) {
	proof, key := digestOf(p.ReplayKey), digestOf(p.JKT)
	end := (p.Until.Unix()/slice + 1) * slice
	sure := m.clock.Read().Sure.Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(sure)
	// A dropped slot may have contained it, if the clock was set back.
	if m.dropped.Has(end/slice) || !m.memory.Covers(p) {
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
