package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

func issueUpstream(t *queueTest) {
	task := t.openTask()
	l := t.intent(task.ID)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	// The minter holds it, with fence 1, until the mint must have ended.
	end := l.Upstream.NextAt
	t.same("taken from its minter", ids(t.take(end.Add(-time.Millisecond), 10)), []string{})
	got := t.take(end, 10)
	t.same("taken", ids(got), []string{l.ID})
	t.same("fence", got[0].Fence, int64(2))
	t.same("claimed", got[0].Lease, l)
	t.want("the minter settles", t.settle(*lived(l)), broker.ErrDone)
	t.same("lease", t.leaseAt(l.ID, end), l)
}

func issueUpstreamRefused(t *queueTest) {
	task, closed := t.openTask(), t.openTask()
	t.close(closed.ID, Epoch)
	l := t.intent(task.ID)
	before := len(t.entries(broker.EntryFilter{}))
	issue := func(f func(*broker.Lease)) error {
		l := Intent(task.ID)
		f(&l)
		return t.Store.Append(t.Context(), broker.Record{IssueLease: &l, Entries: []audit.Entry{Entry(audit.LeaseIssued, task.ID)}})
	}
	t.want("again", issue(func(n *broker.Lease) { n.ID = l.ID }), broker.ErrExists)
	t.want("closed", issue(func(n *broker.Lease) { n.TaskID = closed.ID }), broker.ErrTaskClosed)
	t.want("unknown", issue(func(n *broker.Lease) { n.TaskID = "tsk_none" }), broker.ErrTaskClosed)
	for name, f := range map[string]func(*broker.Lease){
		"live":            func(n *broker.Lease) { n.State = broker.LeaseLive },
		"for ever":        func(n *broker.Lease) { n.Upstream.NextAt = time.Time{} },
		"negative bound":  func(n *broker.Lease) { n.Upstream.Bound = -1 },
		"handle with NUL": func(n *broker.Lease) { n.Upstream.Handle = "\x00" },
		"error not UTF-8": func(n *broker.Lease) { n.Upstream.LastError = "\xff" },
	} {
		if err := issue(f); err == nil {
			t.Errorf("%s: issued", name)
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{})), before)
	t.same("leases", t.leases(broker.LeaseFilter{}), []string{l.ID})
	t.same("in the revocation queue", ids(t.take(Epoch.Add(time.Hour), 10)), []string{l.ID})
}

func take(t *queueTest) {
	task := t.openTask()
	at := Epoch.Add(5 * time.Minute)
	pending := t.pending(task.ID, at)
	other := Intent(task.ID)
	other.Provider = "other"
	t.issue(other)
	t.issue(Lease(task.ID)) // an own token is not in the revocation queue
	live := t.live(task.ID)
	t.same("before its time", ids(t.take(at.Add(-time.Millisecond), 10)), []string{})
	got := t.take(at, 10)
	t.same("ids", ids(got), []string{pending.ID})
	t.same("with its handle", got[0].Lease, pending)
	// A live lease is in the queue from its expiry on, still in state live.
	got = t.take(live.ExpiresAt, 10)
	t.same("ids", ids(got), []string{pending.ID, live.ID})
	t.same("live", got[1].Lease, live)
	none, err := t.Store.Take(t.Context(), "nobody", at, at.Add(time.Hour), 10)
	if err != nil || len(none) != 0 {
		t.Errorf("got %v, %v", none, err)
	}
}

func takeClaims(t *queueTest) {
	task := t.openTask()
	at := Epoch.Add(5 * time.Minute)
	l := t.pending(task.ID, at)
	for i := range 4 {
		got := t.take(at, 10)
		t.same("ids", ids(got), []string{l.ID})
		t.same("fence", got[0].Fence, int64(2+i))
		t.same("while it is claimed", ids(t.take(at.Add(time.Minute-time.Millisecond), 10)), []string{})
		at = at.Add(time.Minute) // its holder has died
	}
	// Giving the lease back ends a claim, and Hold changes its end.
	m := broker.LeaseMove{ID: l.ID, Fence: 5, State: broker.LeaseRevoking, At: at, Hold: at.Add(time.Hour), Upstream: *l.Upstream}
	t.want("hold", t.settle(m), nil)
	t.same("while it is held", ids(t.take(at.Add(59*time.Minute), 10)), []string{})
	m.Hold = time.Time{}
	t.want("give back", t.settle(m), nil)
	t.same("given back", ids(t.take(at, 10)), []string{l.ID})
}

func dueBy(t *queueTest) {
	task := t.openTask()
	at := Epoch.Add(48 * time.Hour) // by a clock that was ahead
	planned, claimed := t.pending(task.ID, at), t.pending(task.ID, at.Add(time.Second))
	intent := Intent(task.ID)
	intent.Upstream.NextAt = at
	t.issue(intent)
	live := t.live(task.ID)
	early := t.pending(task.ID, Epoch)
	t.same("claimed by the clock ahead", ids(t.take(at.Add(time.Second), 10)), []string{early.ID, live.ID, planned.ID, intent.ID, claimed.ID})
	by := Epoch.Add(90 * time.Second)
	t.want("due by", t.Store.DueBy(t.Context(), by), nil)
	t.same("before", ids(t.take(by.Add(-time.Millisecond), 10)), []string{})
	got := ids(t.take(by, 10))
	slices.Sort(got)
	want := []string{early.ID, planned.ID, intent.ID, claimed.ID}
	slices.Sort(want)
	t.same("all but the live one", got, want)
	// The claim by the clock ahead has ended, also of the live lease.
	t.close(task.ID, by)
	t.same("closed", slices.Contains(ids(t.take(by.Add(time.Minute), 10)), live.ID), true)
}

func takeTurns(t *queueTest) {
	a, b, c := t.openTask(), t.openTask(), t.openTask()
	at := Epoch.Add(5 * time.Minute)
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	// The oldest are all of one task.
	a3, a1, a2, a4 := t.pending(a.ID, second(3)), t.pending(a.ID, second(1)), t.pending(a.ID, second(2)), t.pending(a.ID, second(4))
	b2, b1 := t.pending(b.ID, second(12)), t.pending(b.ID, second(11))
	c1 := t.pending(c.ID, second(20))
	want := []string{a1.ID, b1.ID, c1.ID, a2.ID, b2.ID, a3.ID, a4.ID}
	t.same("all", ids(t.take(second(30), 10)), want)
	now := second(30).Add(time.Minute)
	t.same("three", ids(t.take(now, 3)), want[:3])
	t.same("the next two", ids(t.take(now, 2)), []string{a2.ID, b2.ID})
	t.same("the rest", ids(t.take(now, 10)), []string{a3.ID, a4.ID})
}

// A tree has one turn, for any number of delegated tasks. In the turns of the tree, each
// of its tasks has one.
func takeTrees(t *queueTest) {
	root, other := t.openTask(), t.openTask()
	first, second := under(root), under(root)
	below := under(first)
	for _, child := range []broker.Task{first, second, below} {
		t.want("delegate", t.delegated(child, 9), nil)
	}
	at := Epoch.Add(5 * time.Minute)
	pending := func(task broker.Task, n int) string {
		return t.pending(task.ID, at.Add(time.Duration(n)*time.Second)).ID
	}
	f1, f2, f3 := pending(first, 1), pending(first, 2), pending(first, 3)
	s1, b1, r1 := pending(second, 4), pending(below, 5), pending(root, 6)
	o1, o2 := pending(other, 20), pending(other, 21)
	want := []string{f1, o1, s1, o2, b1, r1, f2, f3}
	now := at.Add(30 * time.Second)
	t.same("all", ids(t.take(now, 10)), want)
	t.same("five", ids(t.take(now.Add(time.Minute), 5)), want[:5])
}

// One task with thousands of pending revocations does not delay another, with any page
// size.
func takeThousands(t *queueTest) {
	const many = 2_500
	big, small := t.openTask(), t.openTask()
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for range many / 50 {
				l := Intent(big.ID)
				l.Upstream.NextAt = l.Upstream.NextAt.Add(time.Duration(w) * time.Millisecond)
				if err := t.Store.Append(t.Context(), broker.Record{IssueLease: &l}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	last := Intent(small.ID)
	last.Upstream.NextAt = Epoch.Add(10 * time.Minute)
	t.issue(last)
	now := last.Upstream.NextAt
	first := t.take(now, 2)
	if !slices.Contains(ids(first), last.ID) {
		t.Fatalf("the one of the small task is not among the first two: %v", ids(first))
	}
	seen := map[string]bool{first[0].ID: true, first[1].ID: true}
	for {
		got := t.take(now, 1000)
		if len(got) == 0 {
			break
		}
		for i, c := range got {
			if seen[c.ID] {
				t.Fatalf("%s was claimed twice", c.ID)
			}
			if seen[c.ID] = true; i > 0 && c.Upstream.NextAt.Before(got[i-1].Upstream.NextAt) {
				t.Fatal("a younger one came first")
			}
		}
	}
	t.same("claimed", len(seen), many+1)
	// All are claimed for a minute. DueBy makes all of them due at once.
	by := now.Add(time.Second)
	t.want("due by", t.Store.DueBy(t.Context(), by), nil)
	again := 0
	for got := t.take(by, 1000); len(got) > 0; got = t.take(by, 1000) {
		again += len(got)
	}
	t.same("due again", again, many+1)
}

func takeBounds(t *queueTest) {
	now := Epoch
	for name, f := range map[string]func() ([]broker.Claimed, error){
		"nobody's": func() ([]broker.Claimed, error) { return t.Store.Take(t.Context(), "", now, now.Add(1), 1) },
		"no time": func() ([]broker.Claimed, error) {
			return t.Store.Take(t.Context(), "cloud", time.Time{}, now, 1)
		},
		"claim of no time": func() ([]broker.Claimed, error) { return t.Store.Take(t.Context(), "cloud", now, now, 1) },
		"none": func() ([]broker.Claimed, error) {
			return t.Store.Take(t.Context(), "cloud", now, now.Add(time.Hour), 0)
		},
		"too many": func() ([]broker.Claimed, error) {
			return t.Store.Take(t.Context(), "cloud", now, now.Add(time.Hour), 1001)
		},
	} {
		if got, err := f(); err == nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
