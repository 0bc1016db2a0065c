package broker

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/attest/clock"
	"ebb/broker/pace"
)

// RunLedger is the part of Run that listens to a ledger and its feed, for c.
func RunLedger(ctx context.Context, l Ledger, c Cutter) {
	b := &Broker{clock: clock.New(nil, nil), cfg: Config{Ledger: l, Logger: slog.New(slog.DiscardHandler), Now: time.Now}}
	b.Cut(c)
	g, ctx := errgroup.WithContext(ctx)
	b.runLedger(ctx, g.Go)
	_ = g.Wait()
}

// KeptHandles is how many revocation handles are in memory.
func (b *Broker) KeptHandles() int { return len(b.kept.all()) }

// UnderWay is how many leases this process works on at providers.
func (b *Broker) UnderWay() (n int) {
	for _, u := range b.upstreams {
		n += len(u.claims)
	}
	return n
}

// CloseDue is one look for tasks that are due, and their ends.
func (b *Broker) CloseDue(ctx context.Context) {
	var ends errgroup.Group
	b.closeDue(ctx, &ends)
	_ = ends.Wait()
}

// Round is what Run does every second of what goes by the clock.
func (b *Broker) Round(ctx context.Context) {
	b.CloseDue(ctx)
	b.expireRequests(ctx)
	b.endBreakGlasses(ctx)
	b.keepClock(ctx)
	b.tombs.sweep(b.sure())
}

// Holds is how many control connections of a task count here.
func (b *Broker) Holds(taskID string) int {
	b.holds.mu.Lock()
	defer b.holds.mu.Unlock()
	return len(b.holds.of[taskID])
}

// WatchOpen is what Run does every ten seconds.
func (b *Broker) WatchOpen(ctx context.Context) { b.watchOpen(ctx) }

// Crowd takes every place for mints and for introspections that is free, and says how many.
func (b *Broker) Crowd() (taken int, leave func()) {
	var all []func()
	now, cancel := context.WithCancel(context.Background())
	cancel() // wait for none
	for _, g := range []*pace.Gate{b.crowd.mints, b.crowd.introspections} {
		for i := range crowdPlaces {
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

// CrowdPlaces is how many Crowd takes when nobody has one.
const CrowdPlaces = 2 * crowdPlaces
