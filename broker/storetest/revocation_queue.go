package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/provider"
)

// RunRevocationQueue tests the contract of broker.RevocationQueue, and the effects of a Record on a lease with
// an Upstream.
func RunRevocationQueue(t *testing.T, open OpenStores) {
	run(t, open, func(t *storeTest) *queueTest { return &queueTest{t} }, map[string]func(*queueTest){
		"Issue": issueUpstream, "IssueRefused": issueUpstreamRefused,
		"Take": take, "TakeClaims": takeClaims, "TakeTurns": takeTurns, "TakeTrees": takeTrees, "TakeThousands": takeThousands, "TakeBounds": takeBounds, "DueBy": dueBy,
		"SettleLife": settleLife, "SettleFence": settleFence, "SettleFinal": settleFinal, "SettleOnce": settleOnce, "SettleExpiry": settleExpiry,
		"SettleHandle": settleHandle, "SettleErases": settleErases, "SettleAgain": settleAgain, "SettleRefused": settleRefused,
		"Close": closeMoves, "CloseThenSettle": closeThenSettle, "CloseExpired": closeExpired, "End": endUpstream, "EndNarrowed": endNarrowed,
		"Listings": upstreamListings, "Derived": upstreamDerived, "Pending": pendingRevocations, "Sealed": sealed, "Reseal": reseal,
		"RaceTake": raceTake, "RaceClose": raceCloseSettle, "RaceIssue": raceCloseIssue, "RaceFence": raceFence, "RaceEnd": raceEnd, "Crash": crashBetweenSteps,
	})
}

// queueTest is a storeTest with the steps of broker.RevocationQueue.
type queueTest struct{ *storeTest }

// mintEnd is the time after the issue by which the mint of an intent must have ended.
const mintEnd = 30 * time.Second

// Intent returns an intent at provider "cloud" with every member of its Upstream that can
// be set by then.
func Intent(taskID string) broker.Lease {
	l := Lease(taskID)
	l.Provider, l.Class, l.State = "cloud", provider.ClassEventual, broker.LeaseIntent
	l.Upstream = &broker.Upstream{Bound: 60, DiesAt: l.ExpiresAt.Add(time.Hour), NextAt: l.IssuedAt.Add(mintEnd)}
	return l
}

// intent issues an intent.
func (t *queueTest) intent(taskID string) broker.Lease {
	t.Helper()
	return t.issue(Intent(taskID))
}

// lived returns the move after a successful mint of l.
func lived(l broker.Lease) *broker.LeaseMove {
	up := *l.Upstream
	up.NextAt, up.Handle = l.ExpiresAt, "v1.key1."+l.ID
	return &broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseLive, At: l.IssuedAt.Add(time.Second), Upstream: up}
}

// live issues a live lease.
func (t *queueTest) live(taskID string) broker.Lease {
	t.Helper()
	l := t.intent(taskID)
	m := lived(l)
	t.want("settle", t.settle(*m), nil)
	l.State, l.Upstream = broker.LeaseLive, &m.Upstream
	return l
}

// pending issues a lease whose revocation is pending since at.
func (t *queueTest) pending(taskID string, at time.Time) broker.Lease {
	t.Helper()
	l := t.live(taskID)
	t.want("end", t.end(l.ID, broker.LeaseRevoking, at), nil)
	l.State, l.RevokedAt, l.RevokedBy, l.Upstream.NextAt = broker.LeaseRevoking, at, "ops", at
	return l
}

func (t *queueTest) settle(m broker.LeaseMove, entries ...audit.Entry) error {
	return t.Store.Append(t.Context(), broker.Record{SettleLease: &m, Entries: entries})
}

func (t *queueTest) end(id string, s broker.LeaseState, at time.Time) error {
	return t.Store.Append(t.Context(), broker.Record{EndLease: &broker.LeaseEnd{ID: id, State: s, By: "ops", At: at}})
}

func (t *queueTest) close(task string, at time.Time) {
	t.Helper()
	t.append(broker.Record{MoveTask: closing(task, at)})
}

// take claims for a minute.
func (t *queueTest) take(now time.Time, n int) []broker.Claimed {
	t.Helper()
	got, err := t.Store.Take(t.Context(), "cloud", now, now.Add(time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func ids(cs []broker.Claimed) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = c.ID
	}
	return out
}

// shown returns l as in a listing: without its handle.
func shown(l broker.Lease) broker.Lease {
	if l.Upstream != nil {
		up := *l.Upstream
		up.Handle, l.Upstream = "", &up
	}
	return l
}

// No listing contains a handle, sealed or not, and the rows of own tokens have no
// Upstream.
func upstreamListings(t *queueTest) {
	task := t.openTask()
	own, live, pending := t.issue(Lease(task.ID)), t.live(task.ID), t.pending(task.ID, Epoch.Add(2*time.Minute))
	want := []string{own.ID, live.ID, pending.ID}
	for name, f := range map[string]broker.LeaseFilter{"all": {}, "task": {TaskID: task.ID}, "ids": {IDs: want}, "from": {From: Epoch}} {
		f.Now = Epoch.Add(3 * time.Minute)
		got, err := t.Store.Leases(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		t.same(name, got, []broker.Lease{own, shown(live), shown(pending)})
	}
	t.same("provider", t.leases(broker.LeaseFilter{Provider: "cloud"}), want[1:])
	for name, f := range map[string]broker.LeaseFilter{"upstream": {}, "upstream of the task": {TaskID: task.ID}} {
		f.Upstream = true
		t.same(name, t.leases(f), want[1:])
	}
	t.same("upstream of another task", t.leases(broker.LeaseFilter{TaskID: t.openTask().ID, Upstream: true}), []string{})
	claims := t.take(pending.RevokedAt, 10)
	sealed, err := t.Store.Sealed(t.Context(), "", "", 10)
	if err != nil || len(sealed) != 2 || len(claims) != 1 || claims[0].Upstream.Handle == "" {
		t.Fatalf("got %v, %v, %v", sealed, claims, err)
	}
	for _, v := range []any{claims, sealed} { // these hold handles, which must not be printed
		raw, err := json.Marshal(v)
		if err != nil || strings.Contains(string(raw), "key1") || !strings.Contains(string(raw), `"attempts"`) {
			t.Errorf("got %s, %v", raw, err)
		}
	}
}

// From its expiry on, the revocation of a live lease is pending in every listing.
func upstreamDerived(t *queueTest) {
	task := t.openTask()
	intent, live, own := t.intent(task.ID), t.live(task.ID), t.issue(Lease(task.ID))
	pending, dead := t.pending(task.ID, Epoch.Add(2*time.Minute)), t.live(task.ID)
	t.want("settle", t.settle(done(dead.ID, 1, broker.LeaseExpired, Epoch.Add(3*time.Minute))), nil)
	before, after := live.ExpiresAt.Add(-time.Millisecond), live.ExpiresAt
	for _, tt := range []struct {
		now  time.Time
		want map[broker.LeaseState][]string
	}{
		{before, map[broker.LeaseState][]string{
			broker.LeaseIntent: {intent.ID}, broker.LeaseLive: {live.ID, own.ID}, broker.LeaseRevoking: {pending.ID}, broker.LeaseExpired: {dead.ID}}},
		{after, map[broker.LeaseState][]string{
			broker.LeaseIntent: {intent.ID}, broker.LeaseRevoking: {live.ID, pending.ID}, broker.LeaseExpired: {own.ID, dead.ID}}},
	} {
		for _, s := range allStates {
			want := append([]string{}, tt.want[s]...)
			slices.Sort(want)
			t.same(fmt.Sprint("filter ", s), t.leases(broker.LeaseFilter{State: s, Now: tt.now}), want)
			for _, id := range want {
				t.same("state", t.leaseAt(id, tt.now).State, s)
			}
			t.same("one by one", t.leases(broker.LeaseFilter{State: s, Now: tt.now, TaskID: task.ID, Page: broker.Page{Limit: 1}}), want[:min(1, len(want))])
		}
	}
	live.State, live.RevokedAt = broker.LeaseRevoking, live.ExpiresAt
	t.same("lease", t.leaseAt(live.ID, after), shown(live))
}

func pendingRevocations(t *queueTest) {
	sum := func(now time.Time) []broker.RevocationBacklog {
		t.Helper()
		got, err := t.Store.RevocationBacklog(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	task := t.openTask()
	t.issue(Lease(task.ID))
	if got := sum(Epoch.Add(time.Hour)); len(got) != 0 {
		t.Errorf("got %+v of own tokens", got)
	}
	at := Epoch.Add(5 * time.Minute)
	first, second := t.pending(task.ID, at), t.pending(task.ID, at.Add(time.Second))
	retry := done(first.ID, 1, broker.LeaseRevoking, at) // retry in an hour
	t.want("settle", t.settle(retry), nil)
	live, intent := t.live(task.ID), t.intent(task.ID)
	other := Intent(task.ID)
	other.Provider = "aaa"
	t.issue(other)
	dead := t.live(task.ID)
	t.want("settle", t.settle(done(dead.ID, 1, broker.LeaseRevoked, at)), nil)

	t.same("before the mints end", sum(intent.Upstream.NextAt.Add(-1)), []broker.RevocationBacklog{
		{Provider: "cloud", Revoking: 2, Oldest: at, NextAt: second.Upstream.NextAt},
	})
	t.same("after", sum(at), []broker.RevocationBacklog{
		{Provider: "aaa", Intents: 1, Oldest: other.IssuedAt, NextAt: other.Upstream.NextAt},
		{Provider: "cloud", Intents: 1, Revoking: 2, Oldest: intent.IssuedAt, NextAt: intent.Upstream.NextAt},
	})
	held, err := t.Store.Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.same("held", held, map[string]int{"aaa": 1, "cloud": 4})
	t.same("claimed ones too", len(t.take(at, 10)), 1)
	t.same("after the expiry", sum(live.ExpiresAt)[1], broker.RevocationBacklog{Provider: "cloud", Intents: 1, Revoking: 3, Oldest: intent.IssuedAt, NextAt: intent.Upstream.NextAt})
	if _, err := t.Store.RevocationBacklog(t.Context(), time.Time{}); err == nil {
		t.Error("a backlog at no time")
	}
}

func sealed(t *queueTest) {
	task := t.openTask()
	list := func(notBy, after string, n int) []string {
		t.Helper()
		got, err := t.Store.Sealed(t.Context(), notBy, after, n)
		if err != nil {
			t.Fatal(err)
		}
		out := []string{}
		for _, l := range got {
			out = append(out, l.ID)
		}
		return out
	}
	with := func(handle string) broker.Lease {
		l := t.intent(task.ID)
		m := lived(l)
		m.Upstream.Handle = handle
		t.want("settle", t.settle(*m), nil)
		return l
	}
	t.intent(task.ID) // without a handle
	a, b, c := with("v1.old.key1"), with("v1.key1.old"), with("v1.KEY1.x")
	d, dead := with("v1.xkey1.y"), with("v1.old.x")
	t.want("settle", t.settle(done(dead.ID, 1, broker.LeaseRevoked, Epoch.Add(time.Hour))), nil)
	t.same("not by key1", list("key1", "", 10), []string{a.ID, c.ID, d.ID})
	t.same("not by old", list("old", "", 10), []string{b.ID, c.ID, d.ID})
	t.same("any", list("", "", 10), []string{a.ID, b.ID, c.ID, d.ID})
	t.same("wild cards are letters", list("%", "", 10), []string{a.ID, b.ID, c.ID, d.ID})
	t.same("a page", list("key1", "", 2), []string{a.ID, c.ID})
	t.same("the next", list("key1", c.ID, 2), []string{d.ID})
	for _, n := range []int{0, -1, 1001} {
		if _, err := t.Store.Sealed(t.Context(), "key1", "", n); err == nil {
			t.Errorf("a page of %d", n)
		}
	}
}

func reseal(t *queueTest) {
	l := t.live(t.openTask().ID)
	from := l.Upstream.Handle
	swap := func(id, from, to string) error {
		return t.Store.Append(t.Context(), broker.Record{ResealLease: &broker.LeaseSeal{ID: id, From: from, To: to}})
	}
	t.want("reseal", swap(l.ID, from, "v1.key2.x"), nil)
	t.want("again", swap(l.ID, from, "v1.key3.x"), broker.ErrDone)
	t.want("unknown", swap("lse_none", from, "v1.key3.x"), broker.ErrNotFound)
	for _, bad := range [][3]string{{"", "a", "b"}, {l.ID, "", "b"}, {l.ID, "v1.key2.x", ""}, {l.ID, "v1.key2.x", "\x00"}} {
		if err := swap(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%q: appended", bad)
		}
	}
	// The minter's claim is still valid, and does not undo the reseal.
	m := lived(l)
	m.Upstream.Handle = ""
	t.want("settle", t.settle(*m), nil)
	got := t.take(l.ExpiresAt, 1)[0]
	l.Upstream.Handle = "v1.key2.x"
	t.same("lease", got.Lease, l)
}
