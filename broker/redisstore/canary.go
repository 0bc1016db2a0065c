package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
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

	evicting atomic.Bool // a server may evict, as far as Check knows

	mu      sync.Mutex
	birds   []*canary
	masters map[string]int   // address of a master -> its canary, in a Cluster
	servers int64            // when the servers' configuration was last checked
	evicted map[string]int64 // keys that each run of a server has evicted when it was last checked
}

type canary struct {
	tag   string
	epoch int64 // seen
	count int64 // seen, in that epoch
	lost  bool
}

func newGuard(cluster bool, field string) *guard {
	g := &guard{field: field, masters: map[string]int{}, evicted: map[string]int64{}}
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

// sighting is one raise or one look: what was known when it was sent, the least count that
// shows that nothing was lost, and its answer.
type sighting struct {
	bird         *canary
	epoch, least int64
	cmd          *redis.SliceCmd
}

// raise prepares raising the canary that lives with key.
func (s *Store) raise(ctx context.Context, key string) sighting {
	return s.look(ctx, s.birdOf(ctx, key))
}

func (s *Store) look(ctx context.Context, bird *canary) sighting {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return sighting{bird, bird.epoch, bird.count + 1, redis.NewSliceCmd(ctx, canaryScript.args(1, s.keys.canary(bird.tag), s.guard.field)...)}
}

// sight prepares reading the canary that lives with key, which costs no write. It is sent
// behind the command whose answer it vouches for: what was there before a loss that it shows
// was never lost, and what is missing after one that it does not show was never there.
func (s *Store) sight(ctx context.Context, key string) sighting {
	bird := s.birdOf(ctx, key)
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	return sighting{bird, bird.epoch, bird.count, redis.NewSliceCmd(ctx, "hmget", s.keys.canary(bird.tag), "e", s.guard.field)}
}

// absent is err, which says that something is not there, unless the ledger may have lost it.
func (s *Store) absent(ctx context.Context, key string, err error) error {
	g := s.sight(ctx, key)
	if rerr := s.run(ctx, g.cmd); rerr != nil {
		return rerr
	}
	return first(s.doubt(true, g), err)
}

// doubt observes sightings and returns why the answer before them counts for nothing, or nil.
// A loss that was known before they were sent counts only with known.
func (s *Store) doubt(known bool, looks ...sighting) error {
	if s.guard.evicting.Load() {
		return fmt.Errorf("redis: %w", broker.ErrEvicting)
	}
	for _, g := range looks {
		if fresh, lost := s.observe(g); fresh || known && lost {
			return fmt.Errorf("redis: %w", broker.ErrLost)
		}
	}
	return nil
}

// distrust makes the ledger count as lost until the next Mark.
func (g *guard) distrust() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.birds {
		if !b.lost && b.epoch > 0 {
			g.losses.Add(1)
		}
		b.lost = true
	}
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

// observe judges the answer to a raise or a look. What it is compared with was known
// before it was sent, so answers may come in any order. fresh: it shows a loss that was not
// known; lost: the ledger is not complete.
func (s *Store) observe(g sighting) (fresh, lost bool) {
	r := reply(g.cmd.Val())
	if g.cmd.Err() != nil || len(r) != 2 {
		return false, false
	}
	epoch, count := r.num(0), r.num(1)
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	b := g.bird
	if epoch > g.epoch && g.epoch > 0 && count < g.least {
		s.guard.losses.Add(1) // somebody else noticed a loss and has cured it
		fresh = true
	}
	missing := epoch == 0 || epoch < g.epoch || epoch == g.epoch && count < g.least
	switch {
	case missing && epoch < b.epoch && g.epoch < b.epoch:
		return true, true // an old answer from before a Mark
	case missing:
		if !b.lost && b.epoch > 0 {
			s.m.lost.Inc()
			s.guard.losses.Add(1)
			fresh = true
		}
		b.lost, b.count = true, count // from here on, counting goes on
	case epoch > b.epoch: // somebody marked the ledger complete
		b.epoch, b.count, b.lost = epoch, count, false
	case epoch == b.epoch:
		b.count = max(b.count, count)
	}
	return fresh, b.lost
}
