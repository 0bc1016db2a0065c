package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/report"
)

// Run does the background work: deadlines, missed heartbeats, expired requests, pending ends, a
// live store that lost data, the revocation feed and checkpoints. It returns when ctx is done.
func (b *Broker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	var ends errgroup.Group
	ends.SetLimit(maxEnding)
	b.runLiveStore(ctx, g.Go)
	// Each job runs by itself: a store that hangs delays only the jobs that
	// need it.
	for _, keep := range []func(context.Context){
		b.RetryEnds, b.CloseOrphans, b.expireRequests, b.EndBreakGlasses, b.KeepClock,
	} {
		g.Go(func() error { return kernel.Every(ctx, time.Second, keep) })
	}
	g.Go(func() error { return kernel.Every(ctx, dueEvery, func(ctx context.Context) { b.closeDue(ctx, &ends) }) })
	b.RunUpstream(ctx, g.Go)
	g.Go(func() error { return b.RunWatches(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		b.shared.background.Stop()
		return ctx.Err()
	})
	g.Go(func() error {
		return kernel.Every(ctx, time.Minute, func(context.Context) { b.shared.revoked.Sweep(b.Sure()) })
	})
	g.Go(func() error { return kernel.Every(ctx, report.FiguresEvery, b.KeepFigures) })
	g.Go(func() error {
		b.checkpoint(ctx) // signs entries that earlier runs left unsigned, for example after a kill
		b.KeepMark(ctx)
		b.DropMarks(ctx)
		return kernel.Every(ctx, b.cfg.Limits.Checkpoint, b.checkpoint)
	})
	g.Go(func() error { return kernel.Every(ctx, durability.MarkEvery, b.KeepMark) })
	err := errors.Join(g.Wait(), ends.Wait())
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	b.RetryEnds(stop) // the last attempt of this process
	b.Note(stop, b.NewEntry(audit.BrokerStopped, kernel.Self, nil))
	b.checkpoint(stop)
	b.KeepMark(stop)
	return err
}

func (b *Broker) checkpoint(ctx context.Context) {
	if err := b.Checkpoint(ctx); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "a checkpoint of the audit log could not be made", "error", err)
	}
}

// dueEvery is how often tasks with a passed deadline or heartbeat are looked for: their end
// is late by at most that, plus one call to the LiveStore.
const dueEvery = 250 * time.Millisecond

// maxEnding bounds the concurrent ends of tasks.
const maxEnding = 500

// watch refuses requests while the live store is incomplete, and accepts them when it is
// refilled (I6).
func (b *Broker) watch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asked := time.Now()
	err := b.cfg.LiveStore.Check(ctx)
	switch {
	case err == nil:
		b.shared.cuts.LiveStore.Heard(asked)
	case errors.Is(err, broker.ErrLost): // ends may be among the lost data
		b.shared.cuts.Tell(kernel.RevocationListener.Doubt)
	}
	b.Reckon()
	if err == nil && !b.shared.live.Incomplete.Load() || b.Lacks() != nil {
		return
	}
	if errors.Is(err, broker.ErrEvicting) && !b.shared.live.Incomplete.Swap(true) {
		b.shared.cuts.Tell(kernel.RevocationListener.Doubt)
		b.cfg.Logger.ErrorContext(ctx, "the live store may evict keys; no token is issued until eviction is disabled and the live store is refilled", "error", err)
		b.Note(ctx, b.NewEntry(audit.LiveStoreLost, kernel.Self, nil))
	}
	if err != nil && !errors.Is(err, broker.ErrLost) {
		return // unreachable: every call fails by itself, and no data is known to be lost
	}
	if err != nil {
		b.shared.live.Since.Store(b.Now().UnixMilli())
	}
	if !b.shared.live.Incomplete.Swap(true) {
		b.cfg.Logger.ErrorContext(ctx, "the live store lost data; refilling it from the database")
		b.Note(ctx, b.NewEntry(audit.LiveStoreLost, kernel.Self, nil))
	}
	fill, stop := context.WithTimeout(context.WithoutCancel(ctx), kernel.RefillTime)
	defer stop()
	if err := b.Refill(fill); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "the live store could not be refilled; no token is issued until it is", "error", err)
	}
}

// runLiveStore follows the live store and its feed until ctx is done, and closes every egress
// connection when one of them does not answer in time.
func (b *Broker) runLiveStore(ctx context.Context, spawn func(func() error)) {
	silent := func(what string) func() {
		return func() {
			b.cfg.Logger.ErrorContext(ctx, "revocations may be missed: closing all egress connections", "silent", what, "for", broker.ConfirmTimeout.String())
			b.shared.cuts.Tell(kernel.RevocationListener.Doubt)
		}
	}
	liveStore, feed := b.shared.cuts.LiveStore.Begin(silent("live_store")), b.shared.cuts.Feed.Begin(silent("feed"))
	spawn(func() error { return b.FollowReplicas(ctx) })
	spawn(func() error { return kernel.Every(ctx, time.Second, b.watch) })
	spawn(func() error {
		<-ctx.Done()
		liveStore()
		feed()
		return ctx.Err()
	})
}

// closeDue ends all tasks whose deadline has passed or whose heartbeat is missing. It does not
// wait for the database; each end does that by itself.
func (b *Broker) closeDue(ctx context.Context, ends *errgroup.Group) {
	const batch = 100
	for ctx.Err() == nil {
		now := b.Sure()
		ids, err := b.cfg.LiveStore.Due(ctx, now, now.Add(30*time.Second), batch)
		if err != nil {
			b.cfg.Logger.WarnContext(ctx, "due tasks could not be read", "error", err)
			return
		}
		for _, id := range ids {
			ends.Go(func() error { b.closeIfDue(ctx, id, now); return nil })
		}
		if len(ids) < batch {
			return
		}
	}
}

func (b *Broker) closeIfDue(ctx context.Context, id string, now time.Time) {
	live, err := b.cfg.LiveStore.Admit(ctx, broker.Admission{TaskID: id})
	if err != nil || live.State == broker.TaskClosed || now.Before(live.Due) {
		return // ended, or a heartbeat arrived meanwhile
	}
	cause := broker.CauseHeartbeat
	if !now.Before(live.Deadline) {
		cause = broker.CauseDeadline
	}
	if _, err := b.Close(ctx, id, broker.TaskMove{Cause: cause, By: kernel.Self}); err != nil {
		b.cfg.Logger.WarnContext(ctx, "a due task could not be ended yet", "task_id", id, "error", err)
	}
}

func (b *Broker) expireRequests(ctx context.Context) {
	rs, err := b.cfg.ApprovalStore.Requests(ctx, broker.RequestFilter{ExpiredAt: b.Sure(), Page: broker.Page{Limit: 100}})
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "expired requests could not be read", "error", err)
		return
	}
	for _, r := range rs {
		if _, err := b.Expire(ctx, r); err != nil {
			b.cfg.Logger.WarnContext(ctx, "a request could not be expired", "request_id", r.ID, "error", err)
		}
	}
}

// Ready checks every dependency.
func (b *Broker) Ready(ctx context.Context) []broker.Dependency {
	liveStore := b.cfg.LiveStore.Check(ctx)
	if liveStore == nil && b.shared.live.Incomplete.Load() {
		liveStore = broker.ErrLost
	}
	_, store := b.cfg.Store.Tasks(ctx, broker.TaskFilter{IDs: []string{"none"}})
	if store == nil {
		store = b.cfg.Store.Writable(ctx)
	}
	if lacks := b.Lacks(); lacks != nil {
		store = lacks
	}
	_, _, _, key := b.cfg.Keys.Signer(b.Now())
	pending := b.PendingCount()
	out := []broker.Dependency{
		{Name: "live_store", Err: liveStore}, {Name: "database", Err: store}, {Name: "signing_key", Err: key},
		{Name: "policy", Detail: b.PolicyVersion()}, b.ClockState(),
	}
	if pending > 0 {
		out = append(out, broker.Dependency{Name: "pending_ends", Warning: fmt.Sprintf("%d ends of tasks or credentials are pending, because a store has not accepted them; the broker keeps trying", pending)})
	}
	if b.MarkFailed() {
		out = append(out, broker.Dependency{Name: "high_water_mark", Warning: "the high-water mark of the audit log cannot be written: a database that loses its newest entries is not detected; see the log"})
	}
	if s := b.cfg.Sealer; s != nil {
		key := broker.Dependency{Name: "sealing_key"}
		if s.Err() != nil { // the sealer logs the error
			key.Warning = "credentials of third parties cannot be revoked or minted now, or after the next start; see the log"
		}
		out = append(out, key)
	}
	return append(append(out, b.RevocationBacklog(ctx)...), b.Sweeps()...)
}
