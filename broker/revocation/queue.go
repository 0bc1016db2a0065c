package revocation

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secretstore"
)

// Queue revokes credentials at third parties: it claims due leases, attempts the revocation,
// probes the result and settles the lease.
type Queue struct {
	issuerURL       string
	store           broker.Store
	keys            *keys.Ring
	logger          *slog.Logger
	safe            *secretstore.Store
	sealer          broker.Sealer
	lateCredentials *lateCredentials
	kept            *thirdparty.RetainedHandles
	m               *kernel.Metrics
	rang            *thirdparty.Waiters
	upstreams       map[string]*thirdparty.Upstream

	clock    *kernel.Timekeeper
	listings listings
	log      *kernel.Recorder
	sweeper  *Sweeper
	tasks    tasks
	upstream upstream

	jumps   int64 // Timekeeper.Jumps of the last call of replan
	replans int   // remaining calls of replan that update the store
	behind  atomic.Bool
	countMu sync.Mutex
	counted map[string]bool
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (q *Queue) Open() {
	q.lateCredentials = &lateCredentials{}
	q.counted = map[string]bool{}
	q.replans = replanRounds // the clock may have been ahead before the start
}

// attemptRound is how often a worker looks for leases that became due without a wake-up.
const attemptRound = time.Second

// attemptPause is the shortest time between two looks: wake-ups come in bursts.
const attemptPause = 20 * time.Millisecond

// claimTime is how long a claim lasts: a wait for
// a free slot, the call, a probe, and the write. Leases claimed by a process that
// dies wait that long for another one.
const claimTime = 90 * time.Second

// attemptGrace is how long running calls may continue when the broker stops.
const attemptGrace = 5 * time.Second

// runWorker works on the pending revocations at one provider until ctx ends. A provider that hangs
// delays only its own worker; policy, audit and mints are not involved (I6).
func (q *Queue) runWorker(ctx context.Context, u *thirdparty.Upstream) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var works sync.WaitGroup
	t := time.NewTicker(attemptRound)
	defer t.Stop()
	for ctx.Err() == nil {
		q.takeDue(ctx, u, func(c broker.Claimed) { works.Go(func() { q.work(working, u, c) }) })
		pause := time.NewTimer(attemptPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-u.Wake:
		}
	}
	grace := time.AfterFunc(attemptGrace, stop)
	defer grace.Stop()
	works.Wait()
	return ctx.Err()
}

// takeDue claims as many due leases as can be worked on soon.
func (q *Queue) takeDue(ctx context.Context, u *thirdparty.Upstream, work func(broker.Claimed)) {
	for ctx.Err() == nil {
		now := q.clock.Sure()
		n := q.room(u, now)
		if n <= 0 {
			return
		}
		look, cancel := context.WithTimeout(ctx, 5*time.Second)
		cs, err := q.store.Take(look, u.Name, now, now.Add(claimTime), n)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				q.logger.WarnContext(ctx, "the pending revocations at a provider could not be read", "provider", u.Name, "error", err)
			}
			return
		}
		for _, c := range cs {
			u.Claims <- struct{}{} // never blocks: only this worker fills it
			work(c)
		}
		if len(cs) < n {
			return
		}
	}
}

// room returns how many leases to claim now. While attempts are running, a few free slots are
// not worth a read. For a provider that seems to be down it is one, as a probe.
func (q *Queue) room(u *thirdparty.Upstream, now time.Time) int {
	under := len(u.Claims)
	free := cap(u.Claims) - under
	switch {
	case u.Quiet.Left(now) > 0 || !u.Ending.Retry(now).IsZero():
		return 0
	case u.Ending.Probing(now):
		if under > 0 {
			return 0
		}
		return 1
	case under > 0 && free < u.Parallel:
		return 0
	}
	return free
}

// handlesPage is the number of leases read at once to decide which handles to drop.
const handlesPage = 100

// dropHandles drops the handles of leases that another replica, or a person there, has settled.
// They are secrets and not needed any more.
func (q *Queue) dropHandles(ctx context.Context) {
	for ids := range slices.Chunk(q.kept.All(), handlesPage) {
		look, cancel := context.WithTimeout(ctx, broker.FailTime)
		ls, err := q.store.Leases(look, broker.LeaseFilter{IDs: ids, Now: q.clock.Sure(), Page: broker.Page{Limit: len(ids)}})
		cancel()
		if err != nil {
			q.logger.WarnContext(ctx, "the leases of the revocation handles in memory could not be read", "error", err)
			return
		}
		for _, l := range ls {
			if l.State.Final() {
				q.kept.Drop(l.ID)
			}
		}
	}
}

const (
	// countRound is how often pending revocations are counted.
	countRound = 5 * time.Second
	// behindRound is that interval when no third party is configured any more.
	behindRound = time.Minute
	// alarming is the age at which a pending revocation becomes a warning.
	alarming = 5 * time.Minute
)

// replanned is how long a pending revocation may still wait after a jump of the clock. It is longer than
// every wait and claim of the queue, except for an expiry, a bound or a busy provider, also by the clock
// of a replica that is a few minutes ahead.
const replanned = 10 * time.Minute

// replanRounds is the number of calls of replan in claimTime.
const replanRounds = int(claimTime/countRound) + 1

// replan makes all pending revocations due within 10 minutes at start and after a jump of the clock,
// because a clock that was ahead may have planned their attempts. It repeats this for claimTime, because an
// attempt that began before the jump can write its next time that much later. After a jump it also ends the
// waits that providers asked for.
func (q *Queue) replan(ctx context.Context) {
	if jumps := q.clock.Jumps(); jumps != q.jumps {
		q.jumps, q.replans = jumps, replanRounds
		for _, u := range q.upstreams {
			u.EndWaits()
		}
	}
	if q.replans == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// Not Sure: while a clock that was behind is being set right, Sure is behind, and DueBy would end the claims
	// of other replicas.
	if err := q.store.DueBy(ctx, q.clock.Now().Add(replanned)); err != nil {
		q.logger.WarnContext(ctx, "pending revocations could not be rescheduled by the current clock", "next_try_in", countRound.String(), "error", err)
		return
	}
	q.replans--
}

// countPending updates the metrics of pending revocations.
func (q *Queue) countPending(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, countRound)
	defer cancel()
	now := q.clock.Sure()
	sums, err := q.store.RevocationBacklog(ctx, now)
	if err != nil {
		q.logger.WarnContext(ctx, "the pending revocations could not be counted", "error", err)
		return
	}
	q.countHeld(ctx)
	byName := map[string]broker.RevocationBacklog{}
	for _, o := range sums {
		byName[o.Provider] = o
	}
	q.countBehind(byName)
	late := q.lateCredentials.count()
	for name, u := range q.upstreams {
		o := byName[name]
		q.m.RevocationBacklog.WithLabelValues(name).Set(float64(o.Intents + o.Revoking + late[name]))
		age := 0.0
		if !o.Oldest.IsZero() {
			age = max(now.Sub(o.Oldest), 0).Seconds()
		}
		q.m.OldestPending.WithLabelValues(name).Set(age)
		q.m.Breakers.WithLabelValues(name).Set(float64(u.Ending.State(now)))
	}
}

// countBehind updates the metrics of providers that are no longer configured, while they have
// pending revocations.
func (q *Queue) countBehind(byName map[string]broker.RevocationBacklog) {
	q.countMu.Lock()
	defer q.countMu.Unlock()
	for name := range q.counted {
		if byName[name].Provider == "" {
			q.m.RevocationBacklog.DeleteLabelValues(name)
			delete(q.counted, name)
		}
	}
	behind := false
	for name, o := range byName {
		if q.upstreams[name] == nil {
			behind = behind || o.Intents+o.Revoking > 0
			q.m.RevocationBacklog.WithLabelValues(name).Set(float64(o.Intents + o.Revoking))
			q.counted[name] = true
		}
	}
	q.behind.Store(behind)
}

// countHeld updates the number of credentials of each provider, if any provider limits it.
func (q *Queue) countHeld(ctx context.Context) {
	bounded := false
	for _, u := range q.upstreams {
		bounded = bounded || u.MaxLive > 0
	}
	if !bounded {
		return
	}
	counts := make(map[string]func(int), len(q.upstreams))
	for name, u := range q.upstreams {
		counts[name] = u.Held.Count()
	}
	held, err := q.store.Held(ctx)
	if err != nil {
		q.logger.WarnContext(ctx, "the credentials held at providers could not be counted", "error", err)
		return
	}
	for name, set := range counts {
		set(held[name])
	}
}

// RevocationBacklog returns the readiness entry of pending revocations: it is never an outage, and becomes
// a warning from the age alarming on.
func (q *Queue) RevocationBacklog(ctx context.Context) []broker.Dependency {
	if len(q.upstreams) == 0 && !q.behind.Load() {
		return nil
	}
	now := q.clock.Sure()
	sums, err := q.store.RevocationBacklog(ctx, now)
	if err != nil {
		return []broker.Dependency{{Name: "pending_revocations", Err: err}}
	}
	out := broker.Dependency{Name: "pending_revocations", Detail: "none"}
	n, text := 0, ""
	for _, o := range sums {
		pending := o.Intents + o.Revoking
		if pending == 0 {
			continue
		}
		n += pending
		age := max(now.Sub(o.Oldest), 0).Truncate(time.Second)
		text += fmt.Sprintf(" %s %d since %s", o.Provider, pending, age)
		switch {
		case q.upstreams[o.Provider] == nil:
			out.Warning = "revocations are pending at a provider that is no longer configured: configure it again, or force them; see ebb leases list --state revoking"
		case age >= alarming && out.Warning == "":
			out.Warning = "revocations have been pending for 5 minutes or longer: the credentials are refused here, and maybe not at their provider; see ebb leases list --state revoking"
		}
	}
	for name, late := range q.lateCredentials.count() {
		n += late
		text += fmt.Sprintf(" %s %d without a record", name, late)
		out.Warning = "late credentials exist: minted after their leases were settled, and not revoked yet; do not stop this process before it has revoked them, see the log"
	}
	if n > 0 {
		out.Detail = fmt.Sprintf("%d:%s", n, text)
	}
	return []broker.Dependency{out}
}

// RunUpstream starts the background work for third parties.
func (q *Queue) RunUpstream(ctx context.Context, run func(func() error)) {
	if len(q.upstreams) == 0 { // removed providers may still have pending revocations
		run(func() error {
			q.countPending(ctx)
			return kernel.Every(ctx, behindRound, q.countPending)
		})
		return
	}
	for _, u := range q.upstreams {
		run(func() error { return q.runWorker(ctx, u) })
		// Credentials that end only by their expiry cannot be revoked, orphans or not.
		if l, can := u.Driver.(provider.Lister); can && u.Traits.Revocability.Class != provider.ClassTTLOnly {
			run(func() error { return q.sweeper.sweepEvery(ctx, u, l) })
		}
	}
	run(func() error {
		q.countPending(ctx)
		return kernel.Every(ctx, countRound, q.countPending)
	})
	run(func() error {
		q.replan(ctx)
		return kernel.Every(ctx, countRound, q.replan)
	})
	run(func() error { return kernel.Every(ctx, countRound, q.reclaim) })
	run(func() error { return kernel.Every(ctx, countRound, q.dropHandles) })
	run(func() error {
		q.reseal(ctx) // the key may have been rotated while ebb was stopped
		return kernel.Every(ctx, resealRound, q.reseal)
	})
}
