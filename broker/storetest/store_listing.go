package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/scopes"
)

// leaseLists: every query, read in pages of every size with the smallest Look, forwards
// and backwards, lists the leases that a filter of all leases selects.
func leaseLists(t *storeTest) {
	minute := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	a, b := t.openTask(), t.openTask()
	for i := range 24 {
		l := Lease([]string{a.ID, b.ID}[i%2])
		l.Owner, l.Provider = fmt.Sprint("owner", i%3), fmt.Sprint("p", i/8)
		l.Scopes = scopes.MustParseSet(fmt.Sprintf("orders:eu/%d:read", i))
		l.IssuedAt, l.ExpiresAt = minute(10*i), minute(10*i+100-(i%4)*20)
		l = t.issue(l)
		if i%5 == 0 {
			t.append(broker.Record{EndLease: &broker.LeaseEnd{ID: l.ID, State: broker.LeaseRevoked, By: "ops", At: minute(10*i + 1)}})
		}
	}
	t.append(broker.Record{MoveTask: closing(b.ID, minute(200))})
	now := minute(235)
	all, err := t.Store.Leases(t.Context(), broker.LeaseFilter{Now: now, Page: broker.Page{Limit: 1000}})
	t.want("all", err, nil)
	for name, q := range map[string]broker.LeaseQuery{
		"all": {}, "task": {TaskID: b.ID}, "owner": {Owner: "owner2"}, "sandbox": {Sandbox: "sbx_" + a.ID[4:]}, "provider": {Provider: "p1"},
		"live": {State: broker.LeaseLive}, "revoked": {State: broker.LeaseRevoked}, "expired": {State: broker.LeaseExpired}, "intent": {State: broker.LeaseIntent},
		"revoking": {State: broker.LeaseRevoking}, "unconfirmed": {State: broker.LeaseUnconfirmed}, "no state": {State: "gone"},
		"text": {Text: "eu/1"}, "no wildcard": {Text: "%"}, "from": {From: minute(55)}, "to": {To: minute(90)},
		"together":  {Owner: "owner1", Provider: "p0", State: broker.LeaseExpired, Text: "orders", From: minute(5), To: minute(120)},
		"of a live": {State: broker.LeaseLive, Owner: "owner1", From: minute(100), To: minute(400)}, "nobody": {Owner: "' OR 1=1 --"},
	} {
		for _, order := range []broker.LeaseOrder{broker.LeaseNewest, broker.LeaseOldest, broker.LeaseEnding} {
			want := listed(all, q, order)
			for _, size := range [][2]int{{1, 2}, {3, 4}, {3, 9}, {50, 1000}} {
				q.Now, q.Order, q.Limit, q.Look, q.Place, q.Back = now, order, size[0], size[1], broker.LeasePlace{}, false
				what := fmt.Sprint(name, " ", order, " ", size)
				t.same(what, t.walk(q), want)
				if len(want) > 0 {
					q.Back, q.Place = true, placeOf(all, want[len(want)-1])
					back := t.walk(q)
					slices.Reverse(back)
					t.same(what+" back", back, want[:len(want)-1])
				}
			}
		}
	}
	for name, q := range map[string]broker.LeaseQuery{"no time": {Limit: 1, Look: 2}, "no limit": {Now: now, Look: 2}, "no look": {Now: now, Limit: 5, Look: 5}} {
		if _, err := t.Store.LeaseList(t.Context(), q); err == nil {
			t.Error(name)
		}
	}
	tally, err := t.Store.LeaseTally(t.Context(), now)
	t.want("tally", err, nil)
	recent := map[broker.LeaseState]int{}
	for _, l := range all {
		recent[l.State]++
	}
	t.same("tally", tally, broker.LeaseTally{Live: broker.Count{N: recent[broker.LeaseLive]}, Recent: recent})
}

// listed returns the expected list, computed from the rows.
func listed(all []broker.Lease, q broker.LeaseQuery, order broker.LeaseOrder) []string {
	var kept []broker.Lease
	for _, l := range all {
		if (q.TaskID == "" || l.TaskID == q.TaskID) && (q.Owner == "" || l.Owner == q.Owner) && (q.Sandbox == "" || l.Sandbox == q.Sandbox) &&
			(q.Provider == "" || l.Provider == q.Provider) && (q.State == "" || l.State == q.State) && strings.Contains(l.Scopes.String(), q.Text) &&
			(q.From.IsZero() || !l.IssuedAt.Before(q.From)) && (q.To.IsZero() || l.IssuedAt.Before(q.To)) &&
			(order != broker.LeaseEnding || l.State == broker.LeaseLive) {
			kept = append(kept, l)
		}
	}
	slices.SortFunc(kept, func(a, b broker.Lease) int {
		if c := a.ExpiresAt.Compare(b.ExpiresAt); order == broker.LeaseEnding && c != 0 {
			return c
		}
		if order == broker.LeaseNewest {
			a, b = b, a
		}
		return strings.Compare(a.ID, b.ID)
	})
	ids := []string{}
	for _, l := range kept {
		ids = append(ids, l.ID)
	}
	return ids
}

func placeOf(all []broker.Lease, id string) broker.LeasePlace {
	for _, l := range all {
		if l.ID == id {
			return broker.LeasePlace{ID: id, Ending: l.ExpiresAt}
		}
	}
	return broker.LeasePlace{}
}

// walked reads page after page until next reports the last one, and returns the keys of
// the rows in the order read.
func walked[Row, Key any](t *storeTest, limit int, back bool, key func(Row) Key, next func() (rows []Row, short, more bool, err error)) []Key {
	t.Helper()
	keys := []Key{}
	for range 100 {
		rows, short, more, err := next()
		t.want("list", err, nil)
		if len(rows) > limit || short && !more {
			t.Fatalf("a page of %d, short %t, more %t", len(rows), short, more)
		}
		if back {
			slices.Reverse(rows)
		}
		for _, r := range rows {
			keys = append(keys, key(r))
		}
		if !more {
			return keys
		}
	}
	t.Fatal("the pages do not end")
	return nil
}

func (t *storeTest) walk(q broker.LeaseQuery) []string {
	t.Helper()
	return walked(t, q.Limit, q.Back, func(l broker.Lease) string { return l.ID }, func() ([]broker.Lease, bool, bool, error) {
		s, err := t.Store.LeaseList(t.Context(), q)
		q.Place = s.Stop
		return s.Leases, s.Short, s.More, err
	})
}

// entryLists: every query of the audit log, in pages forwards and backwards, lists the
// entries that a filter of all entries selects.
func entryLists(t *storeTest) {
	a, b := t.openTask(), t.openTask()
	for i := range 30 {
		e := Entry([]string{audit.LeaseIssued, audit.TokenDenied, audit.LeaseRevoked}[i%3], []string{a.ID, b.ID, ""}[i%3])
		e.At, e.Actor = Epoch.Add(time.Duration(i/4)*time.Minute), fmt.Sprint("actor", i%4)
		if i%2 == 0 {
			e.LeaseID, e.RequestID = fmt.Sprint("lse_", i/6), fmt.Sprint("req_", i/12)
		}
		t.append(broker.Record{Entries: []audit.Entry{e}})
	}
	all := t.entries(broker.EntryFilter{})
	writer := all[0].Writer
	for name, q := range map[string]broker.EntryQuery{
		"all": {}, "task": {TaskID: a.ID}, "lease": {LeaseID: "lse_1"}, "request": {RequestID: "req_1"}, "kind": {Kinds: []string{audit.TokenDenied}}, "minted": {Kinds: []string{audit.LeaseIssued}},
		"prefix": {Kinds: []string{"lease."}}, "kinds": {Kinds: []string{"token.", audit.TaskOpened}}, "actor": {Actor: "actor2"}, "task and kind": {TaskID: b.ID, Kinds: []string{audit.TokenDenied}, Actor: "actor1"},
		"time": {From: Epoch.Add(time.Minute), To: Epoch.Add(3 * time.Minute)}, "part": {Writer: writer, FirstSeq: 3, LastSeq: 9}, "lease and task": {LeaseID: "lse_1", TaskID: a.ID}, "none": {Actor: "' OR 1=1 --"},
	} {
		for _, oldest := range []bool{true, false} {
			want := recorded(all, q, oldest)
			for _, size := range [][2]int{{1, 2}, {3, 5}, {50, 1000}} {
				q.Oldest, q.Limit, q.Look, q.Place, q.Back = oldest, size[0], size[1], broker.EntryPlace{}, false
				what := fmt.Sprint(name, " ", oldest, " ", size)
				t.same(what, t.walkEntries(q), want)
				if n := len(want); n > 0 {
					e := all[slices.IndexFunc(all, func(e audit.Entry) bool { return e.Seq == want[n-1] })]
					q.Back, q.Place = true, broker.EntryPlace{At: e.At, Writer: e.Writer, Seq: e.Seq}
					back := t.walkEntries(q)
					slices.Reverse(back)
					t.same(what+" back", back, want[:n-1])
				}
			}
		}
	}
	for name, q := range map[string]broker.EntryQuery{"no limit": {Look: 5}, "no look": {Limit: 5, Look: 5}, "no writer": {Limit: 1, Look: 2, FirstSeq: 1, LastSeq: 2}} {
		if _, err := t.Store.EntryList(t.Context(), q); err == nil {
			t.Error(name)
		}
	}
}

// recorded returns the sequence numbers that q selects; one writer wrote all entries.
func recorded(all []audit.Entry, q broker.EntryQuery, oldest bool) []int64 {
	out := []int64{}
	for _, e := range all {
		kind := len(q.Kinds) == 0 || slices.ContainsFunc(q.Kinds, func(k string) bool { return e.Kind == k || strings.HasSuffix(k, ".") && strings.HasPrefix(e.Kind, k) })
		if kind && (q.TaskID == "" || e.TaskID == q.TaskID) && (q.LeaseID == "" || e.LeaseID == q.LeaseID) && (q.RequestID == "" || e.RequestID == q.RequestID) &&
			(q.Actor == "" || e.Actor == q.Actor) && (q.From.IsZero() || !e.At.Before(q.From)) && (q.To.IsZero() || e.At.Before(q.To)) &&
			(q.Writer == "" || e.Seq >= q.FirstSeq && e.Seq <= q.LastSeq) {
			out = append(out, e.Seq)
		}
	}
	if !oldest {
		slices.Reverse(out)
	}
	return out
}

func (t *storeTest) walkEntries(q broker.EntryQuery) []int64 {
	t.Helper()
	return walked(t, q.Limit, q.Back, func(e audit.Entry) int64 { return e.Seq }, func() ([]audit.Entry, bool, bool, error) {
		s, err := t.Store.EntryList(t.Context(), q)
		q.Place = s.Stop
		return s.Entries, s.Short, s.More, err
	})
}
