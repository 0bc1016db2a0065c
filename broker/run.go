package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/broker/audit"
)

// Run keeps the promises that nobody calls for: deadlines, missed heartbeats,
// requests nobody answered, ends still owed, a ledger that lost data, the feed,
// checkpoints. It returns when ctx is done.
func (b *Broker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	var ends errgroup.Group
	ends.SetLimit(maxEnding)
	b.runLedger(ctx, g.Go)
	// Each promise is kept on its own: a store that hangs holds up only those that
	// need it.
	for _, keep := range []func(context.Context){
		b.payOwed, b.closeOrphans, b.expireRequests, b.endBreakGlasses, b.keepClock,
	} {
		g.Go(func() error { return every(ctx, time.Second, keep) })
	}
	g.Go(func() error { return every(ctx, dueEvery, func(ctx context.Context) { b.closeDue(ctx, &ends) }) })
	b.runUpstream(ctx, g.Go)
	g.Go(func() error { return b.runWatches(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		b.sequels.stop()
		return ctx.Err()
	})
	g.Go(func() error { return every(ctx, time.Minute, func(context.Context) { b.tombs.sweep(b.sure()) }) })
	g.Go(func() error { return every(ctx, figuresEvery, b.keepFigures) })
	g.Go(func() error {
		b.checkpoint(ctx) // what earlier runs left unsigned, for example by a kill
		b.keepMark(ctx)
		b.dropMarks(ctx)
		return every(ctx, b.cfg.Limits.Checkpoint, b.checkpoint)
	})
	g.Go(func() error { return every(ctx, markEvery, b.keepMark) })
	err := errors.Join(g.Wait(), ends.Wait())
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	b.payOwed(stop) // nobody else will
	b.note(stop, b.entry(audit.BrokerStopped, self, nil))
	b.checkpoint(stop)
	b.keepMark(stop)
	return err
}

func every(ctx context.Context, d time.Duration, do func(context.Context)) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			do(ctx)
		}
	}
}

func (b *Broker) checkpoint(ctx context.Context) {
	if err := b.Checkpoint(ctx); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "no checkpoint of the audit chain was made", "error", err)
	}
}

const (
	// dueEvery is how often tasks are looked for whose deadline or heartbeat has passed: the end
	// of one is that late at most, and the time of one call of the LiveStore.
	dueEvery = 250 * time.Millisecond
	// maxEnding bounds the ends that are under way at one time.
	maxEnding = 500
	// refillTime bounds one refill of the ledger.
	refillTime = 5 * time.Minute
)

// watch closes the doors while the ledger is incomplete and opens them when it
// is refilled (I6).
func (b *Broker) watch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asked := time.Now()
	err := b.cfg.Ledger.Check(ctx)
	switch {
	case err == nil:
		b.cuts.ledger.heard(asked)
	case errors.Is(err, ErrLost): // ends may be among what was lost
		b.cuts.tell(Cutter.Doubt)
	}
	b.reckon()
	if err == nil && !b.down.Load() || b.lacks() != nil {
		return
	}
	if errors.Is(err, ErrEvicting) && !b.down.Swap(true) {
		b.cuts.tell(Cutter.Doubt)
		b.cfg.Logger.ErrorContext(ctx, "the ledger may evict what must not be forgotten; nothing mints until it may not, and is refilled", "error", err)
		b.note(ctx, b.entry(audit.LedgerLost, self, nil))
	}
	if err != nil && !errors.Is(err, ErrLost) {
		return // unreachable: every call fails by itself, and nothing was lost yet
	}
	if err != nil {
		b.since.Store(b.now().Unix())
	}
	if !b.down.Swap(true) {
		b.cfg.Logger.ErrorContext(ctx, "the ledger lost data; refilling it from the journal")
		b.note(ctx, b.entry(audit.LedgerLost, self, nil))
	}
	fill, stop := context.WithTimeout(context.WithoutCancel(ctx), refillTime)
	defer stop()
	if err := b.refill(fill); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "the ledger could not be refilled; nothing mints until it is", "error", err)
	}
}

// closeDue ends tasks whose deadline passed or whose runner went silent, all of
// them: it does not wait for the journal, which each end waits for by itself.
func (b *Broker) closeDue(ctx context.Context, ends *errgroup.Group) {
	const batch = 100
	for ctx.Err() == nil {
		now := b.sure()
		ids, err := b.cfg.Ledger.Due(ctx, now, now.Add(30*time.Second), batch)
		if err != nil {
			b.cfg.Logger.WarnContext(ctx, "tasks that are due could not be read", "error", err)
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
	live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: id})
	if err != nil || live.State == TaskClosed || now.Before(live.Due) {
		return // ended or beaten meanwhile
	}
	cause := CauseHeartbeat
	if !now.Before(live.Deadline) {
		cause = CauseDeadline
	}
	if _, err := b.close(ctx, id, TaskMove{Cause: cause, By: self}); err != nil {
		b.cfg.Logger.WarnContext(ctx, "a task that is due could not be ended yet", "task_id", id, "error", err)
	}
}

func (b *Broker) expireRequests(ctx context.Context) {
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{ExpiredAt: b.sure(), Page: Page{Limit: 100}})
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "requests that expired could not be read", "error", err)
		return
	}
	for _, r := range rs {
		if _, err := b.expire(ctx, r); err != nil {
			b.cfg.Logger.WarnContext(ctx, "a request could not be expired", "request_id", r.ID, "error", err)
		}
	}
}

// follow learns of ends that other replicas made.
func (b *Broker) follow(ctx context.Context) error {
	cursor := ""
	for ctx.Err() == nil {
		asked := time.Now()
		evs, next, err := b.cfg.Ledger.Follow(ctx, cursor, 1000, feedWait)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			b.cfg.Logger.WarnContext(ctx, "the revocation feed is unavailable", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		for _, e := range evs {
			b.heard(ctx, e)
		}
		b.cuts.feed.heard(asked)
		cursor = next
	}
	return ctx.Err()
}

// Dependency is the state of one thing the broker needs.
type Dependency struct {
	Name    string
	Err     error  // it cannot be used; for the log
	Warning string // it works, and somebody should look; may be shown
	Detail  string
}

// Ready asks every dependency.
func (b *Broker) Ready(ctx context.Context) []Dependency {
	ledger := b.cfg.Ledger.Check(ctx)
	if ledger == nil && b.down.Load() {
		ledger = ErrLost
	}
	_, journal := b.cfg.Journal.Tasks(ctx, TaskFilter{IDs: []string{"none"}})
	if journal == nil {
		journal = b.cfg.Journal.Writable(ctx)
	}
	if lacks := b.lacks(); lacks != nil {
		journal = lacks
	}
	_, _, _, key := b.cfg.Keys.Signer(b.now())
	b.owedMu.Lock()
	owed := len(b.owed) + len(b.owedLeases)
	b.owedMu.Unlock()
	out := []Dependency{
		{Name: "ledger", Err: ledger}, {Name: "journal", Err: journal}, {Name: "signing_key", Err: key},
		{Name: "policy", Detail: b.PolicyVersion()}, b.clockState(),
	}
	if owed > 0 {
		out = append(out, Dependency{Name: "owed_ends", Warning: fmt.Sprintf("%d ends of tasks or credentials are owed to a store; the broker goes on trying", owed)})
	}
	b.markMu.Lock()
	failed := b.marking.failed
	b.markMu.Unlock()
	if failed {
		out = append(out, Dependency{Name: "high_water_mark", Warning: "the mark of how far the audit log has come cannot be written: a database that loses its end goes unnoticed; see the log"})
	}
	if s := b.cfg.Sealer; s != nil {
		key := Dependency{Name: "sealing_key"}
		if s.Err() != nil { // its keeper logs what it is
			key.Warning = "credentials of third parties wait, or will after the next start; see the log"
		}
		out = append(out, key)
	}
	return append(append(out, b.owing(ctx)...), b.sweeps()...)
}
