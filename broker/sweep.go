package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/broker/pace"
	"ebb/broker/provider"
)

const (
	// sweepDelay is how long after the start the first search begins: what is owed
	// goes first.
	sweepDelay = 15 * time.Second
	// sweepBatch is how much of a list is compared with the journal at one time, and
	// so how much of it is ever in memory.
	sweepBatch = 500
	// sweepIdle is how long a list may say nothing.
	sweepIdle = time.Minute
	// sweepMost ends a list that has no end.
	sweepMost = 2_000_000
	// sweepSlack is how far the clocks of replicas may be apart: what one of them
	// settled while another listed is no orphan.
	sweepSlack = 5 * time.Second
	// orphanAge is how old an object's lease is at least before anybody asks whether
	// it is an orphan.
	orphanAge = 2 * mintTime
)

// sweepRetry is how long to wait after searches that failed.
var sweepRetry = pace.Backoff{Min: 30 * time.Second, Max: 10 * time.Minute}

var (
	errEndless = errors.New("the provider's list has no end")
	errSilent  = errors.New("the provider's list stopped in the middle")
	errStands  = errors.New("orphans are left at the provider")
)

// swept is what is known of the searches at one provider.
type swept struct {
	mu    sync.Mutex
	since time.Time // the first was planned then; zero = none is
	good  time.Time // the last one that left nothing behind began then
	left  int       // orphans that the last one left
}

// sweepEvery searches a provider for orphans, again and again: objects with a name
// of this installation that no record knows, or that are dead by their record.
func (b *Broker) sweepEvery(ctx context.Context, u *upstream, l provider.Lister) error {
	u.swept.mu.Lock()
	u.swept.since = b.now()
	u.swept.mu.Unlock()
	wait, failures := spread(min(sweepDelay, b.cfg.Limits.Sweep)), 0
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
		if b.sweep(ctx, u, l) {
			wait, failures = spread(b.cfg.Limits.Sweep), 0
			continue
		}
		failures++
		wait = min(sweepRetry.Wait(failures, jitter()), spread(b.cfg.Limits.Sweep))
	}
}

// spread keeps replicas from searching at the same moment.
func spread(d time.Duration) time.Duration { return d*9/10 + time.Duration(jitter()*float64(d)/5) }

// sweep is one search. It reports whether it went through the whole list and left
// nothing behind.
func (b *Broker) sweep(ctx context.Context, u *upstream, l provider.Lister) bool {
	s := &sweeping{b: b, u: u, began: b.now()}
	start := time.Now()
	err := s.run(ctx, l)
	if ctx.Err() != nil {
		return true // the broker stops: that says nothing
	}
	u.logged.swept(err, s.left, s.began, time.Since(start))
	u.swept.mu.Lock()
	defer u.swept.mu.Unlock()
	if errors.Is(err, errNotToday) {
		return false
	}
	u.swept.left = s.left
	if s.strange > 0 {
		b.cfg.Logger.WarnContext(ctx, "a provider lists names of this installation that it cannot have given; they are left alone", "provider", u.name, "names", s.strange)
	}
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "a search for orphans failed", "provider", u.name, "listed", s.listed, "orphans", s.orphans, "left", s.left, "error", err)
		return false
	}
	u.swept.good = s.began
	if s.orphans > 0 {
		b.cfg.Logger.WarnContext(ctx, "orphans were found and taken back", "provider", u.name, "listed", s.listed, "orphans", s.orphans)
	}
	return true
}

// sweeping is one search under way.
type sweeping struct {
	b     *Broker
	u     *upstream
	began time.Time
	batch []provider.Target // not yet compared

	listed  int
	strange int // names that no lease of ours can have

	mu      sync.Mutex
	orphans int   // taken back
	left    int   // still there
	err     error // why, of the last
}

// run lists and compares. A provider that does not answer its revocations is left
// alone until one of them may find out that it is back: the lane's, and when nothing is
// owed there, that of an orphan. One that limits how often it lists is left alone with
// lists, and with nothing else: a search must not hold up what ends.
func (s *sweeping) run(ctx context.Context, l provider.Lister) error {
	if max(s.u.quiet.left(s.began), s.u.noLists.left(s.began)) > 0 || s.u.ending.State(s.began) == pace.Open {
		return errNotToday
	}
	list, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := min(sweepIdle, s.b.cfg.Limits.Sweep)
	idle := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer idle.Stop()
	_, err := safely(func() (struct{}, error) {
		return struct{}{}, l.List(list, s.b.instance, func(t provider.Target) error {
			idle.Stop()
			defer idle.Reset(patience)
			return s.take(list, t)
		})
	})
	if err == nil || list.Err() != nil {
		err = context.Cause(list) // a list that was cut short is not a whole one
	}
	if busy, is := errors.AsType[*provider.BusyError](err); is {
		s.u.noLists.keep(s.b.now(), busy.After)
	}
	if ctx.Err() == nil {
		err = errors.Join(err, s.compare(ctx)) // what was listed before a failure is there all the same
	}
	return errors.Join(err, s.err)
}

// take looks at one thing that the provider listed.
func (s *sweeping) take(ctx context.Context, t provider.Target) error {
	if s.listed++; s.listed > sweepMost {
		return errEndless
	}
	if t.Instance != s.b.instance {
		s.strange++
		return ctx.Err()
	}
	switch made, ours := madeAt(leasePrefix, t.LeaseID); {
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

// compare asks the journal about a batch. What it says now is later than the list,
// and an intent is durable before its object can be there: what it does not know has
// no record.
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
	look, cancel := context.WithTimeout(ctx, failTime)
	known, err := s.b.cfg.Journal.Leases(look, LeaseFilter{IDs: ids, Now: s.b.now(), Page: Page{Limit: len(ids)}})
	cancel()
	if err != nil {
		return fmt.Errorf("what was listed could not be compared with the record: %w", err)
	}
	record := make(map[string]Lease, len(known))
	for _, l := range known {
		record[l.ID] = l
	}
	// Ends that are owed have the provider's calls before orphans have.
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
func (s *sweeping) over(l Lease) bool {
	return l.State.final() && (l.Upstream == nil || l.Upstream.DeadAt.Before(s.began.Add(-sweepSlack)))
}

// sweeps is the readiness of the searches: one that has not succeeded for three
// times its interval is a warning.
func (b *Broker) sweeps() []Dependency {
	now, out := b.now(), Dependency{Name: "orphan_sweep"}
	var each []string
	for _, name := range slices.Sorted(maps.Keys(b.upstreams)) {
		s := &b.upstreams[name].swept
		s.mu.Lock()
		since, good, left := s.since, s.good, s.left
		s.mu.Unlock()
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
		if now.Sub(since) > 3*b.cfg.Limits.Sweep+sweepDelay {
			out.Warning = "the search for orphans at a provider has not succeeded for long; the log says why, and ebb_orphans_left how many are known to be left"
		}
	}
	if len(each) == 0 {
		return nil
	}
	out.Detail = strings.Join(each, "; ")
	return []Dependency{out}
}
