package redisstore

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// canaries is how many canaries a Cluster has, spread evenly over the slots: a
// master that holds 512 slots in a row holds at least one.
const canaries = 64

const slots = 16384

// guard is what this process knows of the canaries.
//
// A canary is a hash with an epoch, which each Mark raises, and a counter for
// each process, which only that process raises. Replication is ordered: if a
// master lost anything this process wrote before it raised its counter there,
// then the counter is lost too, and the next raise returns a number that was
// already seen.
type guard struct {
	field  string // this process's counter
	calls  atomic.Uint64
	losses atomic.Int64

	mu      sync.Mutex
	birds   []*canary
	masters map[string]int // address of a master -> its canary, in a Cluster
	servers int64          // when the servers' configuration was last checked
}

type canary struct {
	tag   string
	epoch int64 // seen
	count int64 // seen, in that epoch
	lost  bool
}

func newGuard(cluster bool, field string) *guard {
	g := &guard{field: field, masters: map[string]int{}}
	if !cluster {
		g.birds = []*canary{{tag: "0"}}
		return g
	}
	g.birds = make([]*canary, canaries)
	for n, missing := 0, canaries; missing > 0; n++ {
		tag := strconv.Itoa(n)
		if at := int(crc16(tag)) % slots * canaries / slots; g.birds[at] == nil {
			g.birds[at] = &canary{tag: tag}
			missing--
		}
	}
	return g
}

// crc16 is the checksum a Cluster maps keys to slots by (CRC-16/XMODEM, Redis
// Cluster specification, appendix A).
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// sighting is one raise: what was known when it was sent, and its answer.
type sighting struct {
	bird         *canary
	epoch, count int64
	cmd          *redis.SliceCmd
}

// raise prepares raising the canary that lives with key.
func (s *Store) raise(ctx context.Context, key string) sighting {
	return s.look(ctx, s.birdOf(ctx, key))
}

func (s *Store) look(ctx context.Context, bird *canary) sighting {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return sighting{bird, bird.epoch, bird.count, redis.NewSliceCmd(ctx, canaryScript.args(1, s.keys.canary(bird.tag), s.guard.field)...)}
}

// birdOf finds the canary on the master of key. While the map of masters, which
// Check renews, is older than a change of the Cluster it may be another master's:
// then a loss is noticed by the counters that Check raises, if at all.
func (s *Store) birdOf(ctx context.Context, key string) *canary {
	if s.cluster == nil {
		return s.guard.birds[0]
	}
	master, err := s.cluster.MasterForKey(ctx, key)
	if err != nil {
		return s.guard.birds[0] // the command itself will meet that error
	}
	s.guard.mu.Lock()
	at, known := s.guard.masters[master.Options().Addr]
	s.guard.mu.Unlock()
	if !known {
		if _, err := s.flock(ctx); err == nil {
			s.guard.mu.Lock()
			at = s.guard.masters[master.Options().Addr]
			s.guard.mu.Unlock()
		}
	}
	return s.guard.birds[at]
}

// flock is one canary for each master.
func (s *Store) flock(ctx context.Context) ([]*canary, error) {
	if s.cluster == nil {
		return s.guard.birds, nil
	}
	masters := map[string]int{}
	var out []*canary
	for i, bird := range s.guard.birds {
		master, err := s.cluster.MasterForKey(ctx, s.keys.canary(bird.tag))
		if err != nil {
			return nil, wrap(err)
		}
		if _, known := masters[master.Options().Addr]; !known {
			masters[master.Options().Addr] = i
			out = append(out, bird)
		}
	}
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.masters = masters
	return out, nil
}

// observe judges the answer to a raise. What it is compared with was known
// before it was sent, so answers may come in any order.
func (s *Store) observe(g sighting) {
	r := reply(g.cmd.Val())
	if g.cmd.Err() != nil || len(r) != 2 {
		return
	}
	epoch, count := r.num(0), r.num(1)
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	b := g.bird
	if epoch > g.epoch && g.epoch > 0 && count <= g.count {
		s.guard.losses.Add(1) // somebody else noticed a loss and has cured it
	}
	lost := epoch == 0 || epoch < g.epoch || epoch == g.epoch && count <= g.count
	switch {
	case lost && epoch < b.epoch && g.epoch < b.epoch:
		return // an old answer from before a Mark
	case lost:
		if !b.lost && b.epoch > 0 {
			s.m.lost.Inc()
			s.guard.losses.Add(1)
		}
		b.lost, b.count = true, count // from here on, counting goes on
	case epoch > b.epoch: // somebody marked the ledger complete
		b.epoch, b.count, b.lost = epoch, count, false
	case epoch == b.epoch:
		b.count = max(b.count, count)
	}
}
