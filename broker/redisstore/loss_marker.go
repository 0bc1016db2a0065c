package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// markerCount is the number of loss markers of a Cluster, spread evenly over the slots: a
// master that holds 512 consecutive slots holds at least one.
const markerCount = 64

const slots = 16384

// guard is the state that this process keeps of the loss markers.
//
// A loss marker is a hash with an epoch, which each Mark raises, and one counter for each
// process, which only that process raises. Replication is ordered. If a master lost a
// write that this process made before it raised its counter there, the raise is lost too.
// The next raise then returns a number that this process has seen before.
type guard struct {
	field  string // this process's counter
	calls  atomic.Uint64
	losses atomic.Int64

	evicting atomic.Bool // a server may evict, according to the last Check

	mu      sync.Mutex
	markers []*lossMarker
	masters map[string]int   // address of a master -> its loss marker, in a Cluster
	servers int64            // when the servers' configuration was last checked
	evicted map[string]int64 // number of keys that each run of a server had evicted at the last check
}

type lossMarker struct {
	tag    string
	epoch  int64  // the last one seen
	count  int64  // the last one seen, in that epoch
	memory string // name of the memory, in that epoch
	lost   bool
}

func newGuard(cluster bool, field string) *guard {
	g := &guard{field: field, masters: map[string]int{}, evicted: map[string]int64{}}
	if !cluster {
		g.markers = []*lossMarker{{tag: "0"}}
		return g
	}
	g.markers = make([]*lossMarker, markerCount)
	for n, missing := 0, markerCount; missing > 0; n++ {
		tag := strconv.Itoa(n)
		if at := int(crc16(tag)) % slots * markerCount / slots; g.markers[at] == nil {
			g.markers[at] = &lossMarker{tag: tag}
			missing--
		}
	}
	return g
}

// crc16 is the checksum by which a Cluster maps keys to slots (CRC-16/XMODEM, Redis
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

// markerRead is one raise or read of a loss marker: the state known when it was sent, the
// least counter value that shows no loss, and the answer.
type markerRead struct {
	marker       *lossMarker
	epoch, least int64
	cmd          *redis.SliceCmd
}

// raise prepares raising the loss marker on the master of key.
func (lg *lossGuard) raise(ctx context.Context, key string) markerRead {
	return lg.look(ctx, lg.markerOf(ctx, key))
}

func (lg *lossGuard) look(ctx context.Context, marker *lossMarker) markerRead {
	lg.guard.mu.Lock()
	defer lg.guard.mu.Unlock()
	return markerRead{marker, marker.epoch, marker.count + 1, redis.NewSliceCmd(ctx, markerScript.args(1, lg.keys.lossMarker(marker.tag), lg.guard.field)...)}
}

// sight prepares reading the loss marker on the master of key, which costs no write. It
// is sent after the command whose answer it confirms. If it shows no loss, data that the
// command did not find was never written.
func (lg *lossGuard) sight(ctx context.Context, key string) markerRead {
	marker := lg.markerOf(ctx, key)
	lg.guard.mu.Lock()
	defer lg.guard.mu.Unlock()
	return markerRead{marker, marker.epoch, marker.count, redis.NewSliceCmd(ctx, "hmget", lg.keys.lossMarker(marker.tag), "e", lg.guard.field, "m")}
}

// absent returns err, which reports missing data, unless the LiveStore may have lost that
// data.
func (lg *lossGuard) absent(ctx context.Context, key string, err error) error {
	g := lg.sight(ctx, key)
	if rerr := lg.cmds.run(ctx, g.cmd); rerr != nil {
		return rerr
	}
	return cmp.Or(lg.doubt(true, g), err)
}

// doubt evaluates reads of loss markers and returns why the answer before them cannot be trusted, or
// nil. A loss that was known before they were sent counts only if known is set.
func (lg *lossGuard) doubt(known bool, looks ...markerRead) error {
	if lg.guard.evicting.Load() {
		return fmt.Errorf("redis: %w", broker.ErrEvicting)
	}
	for _, g := range looks {
		if fresh, lost := lg.observe(g); fresh || known && lost {
			return fmt.Errorf("redis: %w", broker.ErrLost)
		}
	}
	return nil
}

// distrust treats the LiveStore as lost until the next Mark.
func (g *guard) distrust() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.markers {
		if !b.lost && b.epoch > 0 {
			g.losses.Add(1)
		}
		b.lost = true
	}
}

// markerOf returns the loss marker on the master of key. After a change of the Cluster,
// until Check renews the map of masters, it may be the marker of another master: a loss
// is then noticed only by the counters that Check raises.
func (lg *lossGuard) markerOf(ctx context.Context, key string) *lossMarker {
	if lg.cluster == nil {
		return lg.guard.markers[0]
	}
	master, err := lg.cluster.MasterForKey(ctx, key)
	if err != nil {
		return lg.guard.markers[0] // the command itself will return that error
	}
	lg.guard.mu.Lock()
	at, known := lg.guard.masters[master.Options().Addr]
	lg.guard.mu.Unlock()
	if !known {
		if _, err := lg.readMarkers(ctx); err == nil {
			lg.guard.mu.Lock()
			at = lg.guard.masters[master.Options().Addr]
			lg.guard.mu.Unlock()
		}
	}
	return lg.guard.markers[at]
}

// readMarkers returns one loss marker for each master.
func (lg *lossGuard) readMarkers(ctx context.Context) ([]*lossMarker, error) {
	if lg.cluster == nil {
		return lg.guard.markers, nil
	}
	masters := map[string]int{}
	var out []*lossMarker
	for i, marker := range lg.guard.markers {
		master, err := lg.cluster.MasterForKey(ctx, lg.keys.lossMarker(marker.tag))
		if err != nil {
			return nil, wrap(err)
		}
		if _, known := masters[master.Options().Addr]; !known {
			masters[master.Options().Addr] = i
			out = append(out, marker)
		}
	}
	lg.guard.mu.Lock()
	defer lg.guard.mu.Unlock()
	lg.guard.masters = masters
	return out, nil
}

// observe evaluates the answer to a raise or a read. It compares with state from before
// the sending, so answers may come in any order. fresh reports a loss that was not known;
// lost reports that the LiveStore is not complete.
func (lg *lossGuard) observe(g markerRead) (fresh, lost bool) {
	r := reply(g.cmd.Val())
	if g.cmd.Err() != nil || len(r) != 3 {
		return false, false
	}
	epoch, count := r.num(0), r.num(1)
	lg.guard.mu.Lock()
	defer lg.guard.mu.Unlock()
	b := g.marker
	if epoch > g.epoch && g.epoch > 0 && count < g.least {
		lg.guard.losses.Add(1) // another process noticed a loss and has refilled
		fresh = true
	}
	missing := epoch == 0 || epoch < g.epoch || epoch == g.epoch && count < g.least
	switch {
	case missing && epoch < b.epoch && g.epoch < b.epoch:
		return true, true // an old answer from before a Mark
	case missing:
		if !b.lost && b.epoch > 0 {
			lg.m.lost.Inc()
			lg.guard.losses.Add(1)
			fresh = true
		}
		b.lost, b.count = true, count // counting continues from here
	case epoch > b.epoch: // another process marked the LiveStore complete
		b.epoch, b.count, b.memory, b.lost = epoch, count, r.text(2), false
	case epoch == b.epoch:
		b.count = max(b.count, count)
	}
	return fresh, b.lost
}
