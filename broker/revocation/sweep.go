package revocation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Sweeper compares the credentials that a provider lists with the recorded leases, and revokes
// orphans: those whose lease is missing or in a final state.
type Sweeper struct {
	store     broker.Store
	liveStore broker.LiveStore
	limits    broker.Limits
	logger    *slog.Logger
	instance  string
	upstreams map[string]*thirdparty.Upstream

	clock    *kernel.Timekeeper
	queue    *Queue
	upstream upstream
}

const (
	// sweepDelay is the time from the start to the first search: pending revocations go first.
	sweepDelay = 15 * time.Second
	// sweepBatch is the number of listed credentials that are compared at one time, and so the
	// largest number in memory.
	sweepBatch = 500
	// sweepIdle is the longest pause within a list.
	sweepIdle = time.Minute
	// sweepMost ends a list that does not end.
	sweepMost = 2_000_000
	// sweepSlack allows for the clocks of replicas: a credential that one replica settled while
	// another listed is no orphan.
	sweepSlack = 5 * time.Second
	// orphanAge is the smallest age of a lease at which its credential can count as an orphan.
	orphanAge = 2 * broker.MintCall
)

// sweepRetry is the waiting time after failed searches.
var sweepRetry = pace.Backoff{Min: 30 * time.Second, Max: 10 * time.Minute}

var (
	errEndless = errors.New("the provider's list has no end")
	errSilent  = errors.New("the provider's list stopped in the middle")
	errStands  = errors.New("orphans are left at the provider")
)

// sweepEvery searches a provider for orphans at the interval Limits.Sweep. An orphan is a
// credential with a name of this installation that has no lease, or whose lease is in a final
// state.
func (sp *Sweeper) sweepEvery(ctx context.Context, u *thirdparty.Upstream, l provider.Lister) error {
	u.Swept.Mu.Lock()
	u.Swept.Since = sp.clock.Sure()
	u.Swept.Mu.Unlock()
	wait, failures := spread(min(sweepDelay, sp.limits.Sweep)), 0
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
		if sp.sweep(ctx, u, l) {
			wait, failures = spread(sp.limits.Sweep), 0
			continue
		}
		failures++
		wait = min(sweepRetry.Wait(failures, thirdparty.Jitter()), spread(sp.limits.Sweep))
	}
}

// spread varies the interval, so that replicas do not search at the same moment.
func spread(d time.Duration) time.Duration {
	return d*9/10 + time.Duration(thirdparty.Jitter()*float64(d)/5)
}

// sweep makes one search. It reports whether it read the whole list and left no orphan behind.
func (sp *Sweeper) sweep(ctx context.Context, u *thirdparty.Upstream, l provider.Lister) bool {
	s := &sweeping{b: sp, u: u, began: sp.clock.Sure()}
	start := time.Now()
	err := s.run(ctx, l)
	if ctx.Err() != nil {
		return true // the broker stops: not a failure
	}
	u.Logged.Swept(err, s.left, s.began, time.Since(start))
	u.Swept.Mu.Lock()
	defer u.Swept.Mu.Unlock()
	if errors.Is(err, kernel.ErrNotToday) {
		return false
	}
	u.Swept.Left = s.left
	if s.strange > 0 {
		sp.logger.WarnContext(ctx, "a provider lists names of this installation that it cannot have issued; they are not touched", "provider", u.Name, "names", s.strange)
	}
	if err != nil {
		sp.logger.WarnContext(ctx, "a search for orphans failed", "provider", u.Name, "listed", s.listed, "orphans", s.orphans, "left", s.left, "error", err)
		return false
	}
	u.Swept.Good = s.began
	if s.orphans > 0 {
		sp.logger.WarnContext(ctx, "orphans were found and revoked", "provider", u.Name, "listed", s.listed, "orphans", s.orphans)
	}
	return true
}

// sweeping is one running search.
type sweeping struct {
	b     *Sweeper
	u     *thirdparty.Upstream
	began time.Time
	batch []provider.Target // not yet compared

	listed  int
	strange int // names that no lease of this installation can have

	mu      sync.Mutex
	orphans int   // revoked
	left    int   // still there
	err     error // of the last one left
}

// run lists and compares. While a provider's circuit breaker for revocations is open it is not
// searched; a pending revocation, or without any that of an orphan, finds out when it answers
// again. A provider that limits the rate of lists is left alone with lists only, because a
// search must not delay revocations.
func (s *sweeping) run(ctx context.Context, l provider.Lister) error {
	if max(s.u.Quiet.Left(s.began), s.u.NoLists.Left(s.began)) > 0 || s.u.Ending.State(s.began) == pace.Open {
		return kernel.ErrNotToday
	}
	list, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := min(sweepIdle, s.b.limits.Sweep)
	idle := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer idle.Stop()
	_, err := thirdparty.Safely(func() (struct{}, error) {
		return struct{}{}, l.List(list, s.b.instance, func(t provider.Target) error {
			idle.Stop()
			defer idle.Reset(patience)
			return s.take(list, t)
		})
	})
	if err == nil || list.Err() != nil {
		err = context.Cause(list) // an interrupted list is incomplete
	}
	if busy, is := errors.AsType[*provider.BusyError](err); is {
		s.u.NoLists.Keep(s.b.clock.Sure(), busy.After)
	}
	if ctx.Err() == nil {
		err = errors.Join(err, s.compare(ctx)) // the part listed before a failure still counts
	}
	return errors.Join(err, s.err)
}

// take checks one listed credential.
func (s *sweeping) take(ctx context.Context, t provider.Target) error {
	if s.listed++; s.listed > sweepMost {
		return errEndless
	}
	if t.Instance != s.b.instance {
		s.strange++
		return ctx.Err()
	}
	switch made, ours := broker.MadeAt(broker.LeasePrefix, t.LeaseID); {
	case !ours:
		s.strange++
	case made.Before(s.began.Add(-orphanAge)):
		s.batch = append(s.batch, t)
	}
	if len(s.batch) < sweepBatch {
		return ctx.Err()
	}
	return s.compare(ctx)
}

// compare looks a batch up in the database. Its answer is newer than the list, and an intent is
// durable before its credential can exist: a credential without a lease is an orphan.
func (s *sweeping) compare(ctx context.Context) error {
	batch := s.batch
	s.batch = s.batch[:0]
	if len(batch) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	ids := make([]string, len(batch))
	for i, t := range batch {
		ids[i] = t.LeaseID
	}
	look, cancel := context.WithTimeout(ctx, broker.FailTime)
	known, err := s.b.store.Leases(look, broker.LeaseFilter{IDs: ids, Now: s.b.clock.Sure(), Page: broker.Page{Limit: len(ids)}})
	cancel()
	if err != nil {
		return fmt.Errorf("the provider's list could not be compared with the leases: %w", err)
	}
	record := make(map[string]broker.Lease, len(known))
	for _, l := range known {
		record[l.ID] = l
	}
	// Pending revocations come before orphans: a quarter of the provider's calls is for orphans.
	var g errgroup.Group
	g.SetLimit(max(s.u.Parallel/4, 1))
	for _, t := range batch {
		l, recorded := record[t.LeaseID]
		if !recorded || s.over(l) {
			g.Go(func() error { return s.end(ctx, t, l) })
		}
	}
	return g.Wait()
}

// over reports whether a lease was in a final state before the search began.
func (s *sweeping) over(l broker.Lease) bool {
	return l.State.Final() && (l.Upstream == nil || l.Upstream.DeadAt.Before(s.began.Add(-sweepSlack)))
}

// Sweeps returns the readiness entry of the searches: without success for three intervals it is
// a warning.
func (sp *Sweeper) Sweeps() []broker.Dependency {
	now, out := sp.clock.Sure(), broker.Dependency{Name: "orphan_sweep"}
	var each []string
	for _, name := range slices.Sorted(maps.Keys(sp.upstreams)) {
		s := &sp.upstreams[name].Swept
		s.Mu.Lock()
		since, good, left := s.Since, s.Good, s.Left
		s.Mu.Unlock()
		if since.IsZero() {
			continue
		}
		text := name + " not yet"
		if !good.IsZero() {
			since, text = good, name+" "+max(now.Sub(good), 0).Truncate(time.Second).String()+" ago"
		}
		if left > 0 {
			text += fmt.Sprintf(", %d left", left)
		}
		each = append(each, text)
		if now.Sub(since) > 3*sp.limits.Sweep+sweepDelay {
			out.Warning = "the search for orphans at a provider has not succeeded for three intervals; the log says why, and ebb_orphans_left counts the known ones"
		}
	}
	if len(each) == 0 {
		return nil
	}
	out.Detail = strings.Join(each, "; ")
	return []broker.Dependency{out}
}

// orphanLines bounds how many orphans of one search are logged one by one. The
// audit log has all.
const orphanLines = 20

// end revokes an orphan. l is its lease, or has only an id if there is none. An error means
// that the provider must not be called now.
func (s *sweeping) end(ctx context.Context, t provider.Target, l broker.Lease) error {
	b, u := s.b, s.u
	recorded := l.ID != ""
	l.ID = t.LeaseID
	target := b.upstream.RevocationTarget(l, t.Handle)
	err := b.queue.call(ctx, u, func(ctx context.Context) error { return u.Revoke(ctx, target) })
	if errors.Is(err, kernel.ErrNotToday) {
		return err
	}
	before, again := u.Orphans.Get(l.ID)
	switch {
	case err != nil:
		s.leave(err)
		b.logger.WarnContext(ctx, "an orphan could not be revoked yet", "provider", u.Name, "lease_id", l.ID, "error", err)
	case !again:
		u.Orphans.Add(l.ID, b.clock.Sure())
		if b.firstOf(ctx, l.ID) {
			s.tell(ctx, l, recorded)
		}
	case b.clock.Sure().After(before.Add(u.Traits.Revocability.Bound)) && before.Before(s.began):
		s.leave(errStands)
		b.logger.ErrorContext(ctx, "an orphan is still listed after it was revoked", "provider", u.Name, "lease_id", l.ID, "revoked_at", before)
	}
	return nil
}

func (s *sweeping) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left++
	s.err = err
}

// tell counts an orphan of this search and records it.
func (s *sweeping) tell(ctx context.Context, l broker.Lease, recorded bool) {
	s.mu.Lock()
	s.orphans++
	loud := s.orphans <= orphanLines
	s.mu.Unlock()
	s.b.tellOrphan(ctx, s.u, l, recorded, loud)
}

// firstOf reports whether no other replica has reported this orphan. If that is unknown, it
// returns true: a duplicate report is better than none.
func (sp *Sweeper) firstOf(ctx context.Context, leaseID string) bool {
	ctx, cancel := context.WithTimeout(ctx, kernel.LiveStoreTime)
	defer cancel()
	_, err := sp.liveStore.Admit(ctx, broker.Admission{Claims: []broker.Claim{{Key: "orphan:" + leaseID, Value: kernel.Self, Until: sp.clock.Sure().Add(thirdparty.OrphanMemory)}}})
	return !errors.Is(err, broker.ErrClaimed)
}

// tellOrphan counts an orphan and records it together with its lease's state. A lease in a
// final state is not rewritten; this entry corrects it.
func (sp *Sweeper) tellOrphan(ctx context.Context, u *thirdparty.Upstream, l broker.Lease, recorded, loud bool) {
	made, _ := broker.MadeAt(broker.LeasePrefix, l.ID)
	facts := map[string]any{"provider": u.Name, "revocability": u.Traits.Revocability.Class, "recorded": recorded, "made_at": made}
	if recorded {
		facts["state"], facts["refused_since"] = l.State, l.RevokedAt
		if l.Upstream != nil {
			facts["proof"], facts["dead_at"] = l.Upstream.Proof, l.Upstream.DeadAt
		}
	}
	u.Logged.Orphan()
	if loud {
		sp.logger.WarnContext(ctx, "an orphan was revoked at a provider", "lease_id", l.ID, "facts", facts)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), broker.FailTime)
	defer cancel()
	if err := sp.store.Append(ctx, broker.Record{Entries: []audit.Entry{sp.upstream.LeaseEntry(audit.OrphanRevoked, kernel.Self, l, facts)}}); err != nil {
		sp.logger.ErrorContext(ctx, "a revoked orphan could not be recorded", "lease_id", l.ID, "facts", facts, "error", err)
	}
}
