package core

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/revocation"
)

// RunLiveStore is the part of Run that watches a LiveStore and its feed, for c.
func RunLiveStore(ctx context.Context, l broker.LiveStore, c kernel.RevocationListener) {
	logger := slog.New(slog.DiscardHandler)
	s := &shared{live: &kernel.LiveState{}, revoked: &kernel.RevokedSet{}, cuts: &kernel.Disconnects{}}
	b := allocate(Config{LiveStore: l, Logger: logger}, s)
	b.Timekeeper.Open(nil, nil)
	*b.Admitter = kernel.Admitter{LiveStore: l, Live: s.live, Clock: b.Timekeeper}
	*b.Feeds = revocation.Feeds{LiveStore: l, Logger: logger, Cuts: s.cuts, Revoked: s.revoked, Clock: b.Timekeeper}
	b.Cut(c)
	g, ctx := errgroup.WithContext(ctx)
	b.runLiveStore(ctx, g.Go)
	_ = g.Wait()
}

// KeptHandles returns the number of revocation handles in memory.
func (b *Broker) KeptHandles() int { return len(b.shared.kept.All()) }

// UnderWay returns the number of leases on which this process works at providers.
func (b *Broker) UnderWay() (n int) {
	for _, u := range b.shared.upstreams {
		n += len(u.Claims)
	}
	return n
}

// CloseDue runs one check for due tasks, and closes them.
func (b *Broker) CloseDue(ctx context.Context) {
	var ends errgroup.Group
	b.closeDue(ctx, &ends)
	_ = ends.Wait()
}

// Round runs the work of each second.
func (b *Broker) Round(ctx context.Context) {
	b.CloseDue(ctx)
	b.expireRequests(ctx)
	b.EndBreakGlasses(ctx)
	b.KeepClock(ctx)
	b.shared.revoked.Sweep(b.Sure())
}

// Watch runs one check of the LiveStore, and its refill after a loss.
func (b *Broker) Watch(ctx context.Context) { b.watch(ctx) }

// Holds returns the number of control connections of a task at this process.
func (b *Broker) Holds(taskID string) int {
	b.Connections.Holds.Mu.Lock()
	defer b.Connections.Holds.Mu.Unlock()
	return len(b.Connections.Holds.Of[taskID])
}

// WatchOpen runs the work of each ten seconds.
func (b *Broker) WatchOpen(ctx context.Context) { b.SandboxWatch.WatchOpen(ctx) }

// Crowd takes every free place for mints and introspections, and returns their number.
func (b *Broker) Crowd() (taken int, leave func()) {
	var all []func()
	now, cancel := context.WithCancel(context.Background())
	cancel() // do not wait
	for _, g := range []*pace.Gate{b.shared.crowd.Mints, b.shared.crowd.Introspections} {
		for i := range kernel.CrowdPlaces {
			if l, err := g.Enter(now, string(rune('a'+i%2))); err == nil {
				all = append(all, l)
			}
		}
	}
	return len(all), func() {
		for _, l := range all {
			l()
		}
	}
}

// CrowdPlaces is the number of places that Crowd takes when all are free.
const CrowdPlaces = 2 * kernel.CrowdPlaces
