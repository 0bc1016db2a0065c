package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// lossGuard notices that Redis lost data: a loss marker is missing, or its counter went
// back.
type lossGuard struct {
	cluster *redis.ClusterClient
	guard   *guard
	keys    keys
	m       metrics

	cmds    *commands
	servers *servers
}

// serversEvery is the interval at which Check reads the servers' configuration.
const serversEvery = 2 * time.Second

// Check implements broker.Guard with one round trip to each master. It notices
//
//   - a flush, and a restart without data: the loss markers are missing;
//   - a server that may evict keys, or could for a moment, until the next Mark;
//   - a failover to a replica that lacks a close or a revocation by this process, or
//     any write before its last Check (each raises a counter): the counter is behind.
//
// A call that does not find its data also notices a flush, in the same round trip. The
// loss, in a failover, of a lease or claim written after the last raise is not noticed. A
// lost lease is unknown and so not valid. A lost claim could be made again within the
// time between two calls of Check. In a Cluster, a master with fewer than 512 consecutive
// slots may have no loss marker and is then not watched. A process sees only the loss of
// its own writes, so every process must call Check, about once a second. The first
// process that notices a loss and refills calls Mark, which ends the loss for all
// processes; Losses tells the others of it.
func (lg *lossGuard) Check(ctx context.Context) error {
	if err := lg.checkServersSometimes(ctx); err != nil {
		return err
	}
	markers, err := lg.readMarkers(ctx)
	if err != nil {
		return err
	}
	lost, err := lg.lookAt(ctx, markers)
	if err == nil && lost != nil && len(markers) < len(lg.guard.markers) {
		_, err = lg.lookAt(ctx, lg.guard.markers) // from here on Mark counts losses anew
	}
	if err != nil {
		return err
	}
	return lost
}

// lookAt raises the loss markers markers. lost is why Redis must be treated as having lost data.
func (lg *lossGuard) lookAt(ctx context.Context, markers []*lossMarker) (lost, err error) {
	looks := make([]markerRead, len(markers))
	cmds := make([]redis.Cmder, len(markers))
	for i, b := range markers {
		looks[i] = lg.look(ctx, b)
		cmds[i] = looks[i].cmd
	}
	err = lg.cmds.run(ctx, cmds...)
	for _, l := range looks {
		lg.observe(l)
	}
	if err != nil {
		return nil, err
	}
	lg.guard.mu.Lock()
	defer lg.guard.mu.Unlock()
	for _, b := range markers {
		switch {
		case b.epoch == 0:
			return fmt.Errorf("redis: the live state was never marked complete: %w", broker.ErrLost), nil
		case b.lost:
			return fmt.Errorf("redis: %w", broker.ErrLost), nil
		}
	}
	return nil, nil
}

func (lg *lossGuard) checkServersSometimes(ctx context.Context) error {
	now := lg.cmds.now()
	lg.guard.mu.Lock()
	since := now - lg.guard.servers
	lg.guard.mu.Unlock()
	if since >= 0 && since < serversEvery.Milliseconds() {
		return ctx.Err()
	}
	err := lg.servers.checkServers(ctx)
	if errors.Is(err, broker.ErrEvicting) {
		lg.guard.evicting.Store(true)
		lg.guard.distrust()
	}
	if err != nil {
		return err
	}
	lg.guard.evicting.Store(false)
	lg.guard.mu.Lock()
	defer lg.guard.mu.Unlock()
	lg.guard.servers = now
	return nil
}

// Losses implements broker.Guard. Check, and every close and revocation by this process,
// updates the number.
func (lg *lossGuard) Losses() int64 { return lg.guard.losses.Load() }

// Memory implements broker.Guard. Each loss marker has the name that the Mark after its
// loss gave it, and a Mark after a loss gives all of them one name. If several processes
// did so at the same time, masters may have different names: the names of all masters
// together are the memory's.
func (lg *lossGuard) Memory() string {
	lg.guard.mu.Lock()
	defer lg.guard.mu.Unlock()
	watched := []int{0}
	if lg.cluster != nil {
		watched = slices.Collect(maps.Values(lg.guard.masters))
	}
	var names []string
	for _, at := range watched {
		if b := lg.guard.markers[at]; !b.lost {
			names = append(names, b.memory)
		}
	}
	if len(names) < len(watched) || len(names) == 0 || slices.Contains(names, "") {
		return ""
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(names), " ")))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

// Mark implements broker.Guard. It returns ErrLost, and marks no further data complete,
// when data was lost since this process last looked: the refilled state is then
// incomplete.
func (lg *lossGuard) Mark(ctx context.Context) error {
	looks := make([]markerRead, len(lg.guard.markers))
	cmds := make([]redis.Cmder, len(looks))
	name := rand.Text()
	lg.guard.mu.Lock()
	least, lost := int64(0), 0
	for _, b := range lg.guard.markers {
		least = max(least, b.epoch+1)
		if b.lost {
			lost = 1
		}
	}
	for i, b := range lg.guard.markers {
		looks[i] = markerRead{b, b.epoch, b.count + 1, redis.NewSliceCmd(ctx, markScript.args(1, lg.keys.lossMarker(b.tag), lg.guard.field, b.count, least, lost, name)...)}
		cmds[i] = looks[i].cmd
	}
	lg.guard.mu.Unlock()
	err := lg.cmds.run(ctx, cmds...)
	for _, l := range looks {
		lg.observe(l)
		if err == nil && reply(l.cmd.Val()).num(0) == 0 {
			err = fmt.Errorf("redis: data was lost again during the refill: %w", broker.ErrLost)
		}
	}
	return err
}

// Marks implements broker.MarkStore. Redis keeps the marks with the live state, so that
// restoring a database and a key directory together is noticed, too.
func (lg *lossGuard) Marks(ctx context.Context) (map[string][]byte, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "hgetall", lg.keys.marks())
	if err := lg.cmds.run(ctx, cmd); err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(cmd.Val()))
	for writer, mark := range cmd.Val() {
		out[writer] = []byte(mark)
	}
	return out, nil
}

// PutMark implements broker.MarkStore.
func (lg *lossGuard) PutMark(ctx context.Context, writer string, mark []byte) error {
	return lg.cmds.run(ctx, redis.NewIntCmd(ctx, "hset", lg.keys.marks(), writer, mark))
}

// DropMark implements broker.MarkStore.
func (lg *lossGuard) DropMark(ctx context.Context, writer string) error {
	return lg.cmds.run(ctx, redis.NewIntCmd(ctx, "hdel", lg.keys.marks(), writer))
}
