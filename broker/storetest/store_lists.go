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

func taskFilters(t *storeTest) {
	var ids []string
	for i := range 6 {
		task := Task()
		task.Owner, task.Runner, task.Kind = fmt.Sprint("owner", i%2), fmt.Sprint("runner", i%3), fmt.Sprint("kind", i/3)
		t.append(broker.Record{OpenTask: &task})
		ids = append(ids, task.ID)
	}
	pick := choose(ids)
	t.append(broker.Record{MoveTask: &broker.TaskMove{ID: ids[1], State: broker.TaskPaused, At: Epoch}})
	t.append(broker.Record{MoveTask: closing(ids[2], Epoch.Add(time.Minute))})
	t.append(broker.Record{MoveTask: closing(ids[3], Epoch.Add(2*time.Minute))})
	t.append(broker.Record{MoveTask: &broker.TaskMove{ID: ids[4], State: broker.TaskPaused, Cause: broker.CauseDenials, At: Epoch, From: broker.TaskOpen}})
	for name, tt := range map[string]struct {
		f    broker.TaskFilter
		want []string
	}{
		"all":         {broker.TaskFilter{}, ids},
		"ids":         {broker.TaskFilter{IDs: append(pick(4, 0), "tsk_none", "' OR 1=1 --")}, pick(0, 4)},
		"open":        {broker.TaskFilter{State: broker.TaskOpen}, pick(0, 5)},
		"paused":      {broker.TaskFilter{State: broker.TaskPaused}, pick(1, 4)},
		"held":        {broker.TaskFilter{Throttled: true}, pick(4)},
		"not closed":  {broker.TaskFilter{Open: true}, pick(0, 1, 4, 5)},
		"owner":       {broker.TaskFilter{Owner: "owner1"}, pick(1, 3, 5)},
		"runner":      {broker.TaskFilter{Runner: "runner2"}, pick(2, 5)},
		"kind":        {broker.TaskFilter{Kind: "kind1"}, pick(3, 4, 5)},
		"closed from": {broker.TaskFilter{ClosedFrom: Epoch.Add(2 * time.Minute)}, pick(3)},
		"together":    {broker.TaskFilter{Owner: "owner1", Kind: "kind1", Open: true}, pick(5)},
		"nothing":     {broker.TaskFilter{State: "gone"}, pick()},
	} {
		t.same(name, t.tasks(tt.f), tt.want)
	}
}

func leaseFilters(t *storeTest) {
	a, b := t.openTask(), t.openTask()
	var ids []string
	for i := range 6 {
		l := Lease([]string{a.ID, b.ID}[i%2])
		l.Owner, l.Provider, l.Resource = fmt.Sprint("owner", i%3), fmt.Sprint("p", i/3), fmt.Sprint("https://r", i, ".test/")
		l.IssuedAt = Epoch.Add(time.Duration(i) * time.Second)
		l.ExpiresAt = Epoch.Add(time.Hour + time.Duration(i)*time.Second)
		ids = append(ids, t.issue(l).ID)
	}
	pick := choose(ids)
	for name, tt := range map[string]struct {
		f    broker.LeaseFilter
		want []string
	}{
		"all":      {broker.LeaseFilter{}, ids},
		"ids":      {broker.LeaseFilter{IDs: pick(5, 2)}, pick(2, 5)},
		"task":     {broker.LeaseFilter{TaskID: b.ID}, pick(1, 3, 5)},
		"sandbox":  {broker.LeaseFilter{Sandbox: "sbx_" + a.ID[4:]}, pick(0, 2, 4)},
		"owner":    {broker.LeaseFilter{Owner: "owner2"}, pick(2, 5)},
		"resource": {broker.LeaseFilter{Resources: []string{"https://r4.test/", "https://r9.test/", "https://r1.test/"}}, pick(1, 4)},
		"a tree's": {broker.LeaseFilter{Tree: a.ID, Resources: []string{"https://r4.test/", "https://r1.test/"}}, pick(4)},
		"provider": {broker.LeaseFilter{Provider: "p1"}, pick(3, 4, 5)},
		"from":     {broker.LeaseFilter{From: Epoch.Add(4 * time.Second)}, pick(4, 5)},
		"to":       {broker.LeaseFilter{To: Epoch.Add(2 * time.Second)}, pick(0, 1)},
		"between":  {broker.LeaseFilter{From: Epoch.Add(time.Second), To: Epoch.Add(3 * time.Second), State: broker.LeaseLive}, pick(1, 2)},
		"expires":  {broker.LeaseFilter{ExpiresAfter: Epoch.Add(time.Hour + 3*time.Second)}, pick(4, 5)},
		"expired":  {broker.LeaseFilter{ExpiresAfter: Epoch.Add(time.Hour), Now: Epoch.Add(2 * time.Hour), Provider: "p0"}, pick(1, 2)},
		"together": {broker.LeaseFilter{TaskID: b.ID, Provider: "p1", State: broker.LeaseLive}, pick(3, 5)},
		"nothing":  {broker.LeaseFilter{State: "gone"}, pick()},
	} {
		t.same(name, t.leases(tt.f), tt.want)
	}
	if _, err := t.Store.Leases(t.Context(), broker.LeaseFilter{}); err == nil {
		t.Error("leases without Now")
	}
}

// The state of a lease follows from its row, the close of its task, and the clock. A
// filter by state and a read of the lease use the same rule.
func derivedStates(t *storeTest) {
	minute := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	type row struct {
		state  broker.LeaseState
		closed int // minute of the task's close, 0 = open
	}
	const issued, expires = 1, 11
	wants := map[row]func(now int) broker.LeaseState{}
	timed := func(now int) broker.LeaseState {
		if now >= expires {
			return broker.LeaseExpired
		}
		return broker.LeaseLive
	}
	always := func(s broker.LeaseState) func(int) broker.LeaseState {
		return func(int) broker.LeaseState { return s }
	}
	wants[row{broker.LeaseLive, 0}] = timed
	wants[row{broker.LeaseLive, 5}] = always(broker.LeaseRevoked)
	wants[row{broker.LeaseLive, issued}] = always(broker.LeaseRevoked)
	wants[row{broker.LeaseLive, -1}] = always(broker.LeaseRevoked) // lost the race: recorded after the close
	wants[row{broker.LeaseLive, expires}] = timed                  // expired first
	wants[row{broker.LeaseLive, 15}] = timed
	for _, s := range []broker.LeaseState{broker.LeaseIntent, broker.LeaseRevoking, broker.LeaseRevoked, broker.LeaseExpired, broker.LeaseUnconfirmed} {
		wants[row{s, 0}], wants[row{s, 5}] = always(s), always(s)
	}
	ids := map[string]row{}
	for r := range wants {
		task := t.openTask()
		l := Lease(task.ID)
		l.IssuedAt, l.ExpiresAt = minute(issued), minute(expires)
		if r.state == broker.LeaseIntent {
			l.State = broker.LeaseIntent
		}
		t.issue(l)
		if r.state != broker.LeaseLive && r.state != broker.LeaseIntent {
			t.append(broker.Record{EndLease: &broker.LeaseEnd{ID: l.ID, State: r.state, By: "me", Cause: broker.CauseExited, At: minute(3)}})
		}
		if r.closed != 0 {
			t.append(broker.Record{MoveTask: closing(task.ID, minute(r.closed))})
		}
		ids[l.ID] = r
	}
	for _, now := range []int{2, expires, 20} {
		byState := map[broker.LeaseState][]string{}
		for id, r := range ids {
			got, want := t.leaseAt(id, minute(now)), wants[r](now)
			byState[want] = append(byState[want], id)
			if got.State != want {
				t.Errorf("%+v at minute %d: got %s, want %s", r, now, got.State, want)
			}
			if r.state == broker.LeaseLive && want == broker.LeaseRevoked &&
				(!got.RevokedAt.Equal(minute(max(r.closed, issued))) || got.RevokedBy != "ops" || got.Cause != broker.CauseStopped) {
				t.Errorf("%+v: got revoked at %v by %q for %q, want what ended the task", r, got.RevokedAt, got.RevokedBy, got.Cause)
			}
			if r.state == broker.LeaseLive && want != broker.LeaseRevoked && (!got.RevokedAt.IsZero() || got.Cause != "") {
				t.Errorf("%+v: got %+v, want no trace of a revocation", r, got)
			}
		}
		for _, s := range []broker.LeaseState{
			broker.LeaseIntent, broker.LeaseLive, broker.LeaseRevoking, broker.LeaseRevoked, broker.LeaseExpired, broker.LeaseUnconfirmed,
		} {
			slices.Sort(byState[s])
			got := t.leases(broker.LeaseFilter{State: s, Now: minute(now)})
			if !slices.Equal(got, byState[s]) {
				t.Errorf("filter %s at minute %d: got %v, want %v", s, now, got, byState[s])
			}
			slices.Reverse(got)
			t.same("descending", t.leases(broker.LeaseFilter{State: s, Now: minute(now), Page: broker.Page{Desc: true}}), got)
		}
	}
}

func pages(t *storeTest) {
	task := t.openTask()
	var ids []string
	for range 23 {
		ids = append(ids, t.issue(Lease(task.ID)).ID)
	}
	for _, state := range []broker.LeaseState{"", broker.LeaseLive} {
		for _, desc := range []bool{false, true} {
			want := slices.Clone(ids)
			if desc {
				slices.Reverse(want)
			}
			for _, limit := range []int{1, 7, 23, 1000} {
				var got []string
				f := broker.LeaseFilter{State: state, Page: broker.Page{Limit: limit, Desc: desc}}
				for {
					page := t.leases(f)
					got = append(got, page...)
					if len(page) < limit {
						break
					}
					f.Page.After = page[len(page)-1]
				}
				if !slices.Equal(got, want) {
					t.Errorf("state %q limit %d desc %v: got %d leases, want %d in order", state, limit, desc, len(got), len(want))
				}
			}
		}
	}
	for range 60 {
		t.openTask()
	}
	t.same("default page", len(t.tasks(broker.TaskFilter{})), 50)
	for _, limit := range []int{-1, 1001} {
		if _, err := t.Store.Tasks(t.Context(), broker.TaskFilter{Page: broker.Page{Limit: limit}}); err == nil {
			t.Errorf("limit %d accepted", limit)
		}
	}
	if _, err := t.Store.Tasks(t.Context(), broker.TaskFilter{IDs: make([]string, 1001)}); err == nil {
		t.Error("1001 ids accepted")
	}
}

// leaseLists: every query, read in pages of every size with the smallest Look, forwards
// and backwards, lists the leases that a filter of all leases selects.
func leaseLists(t *storeTest) {
	minute := func(n int) time.Time { return Epoch.Add(time.Duration(n) * time.Minute) }
	a, b := t.openTask(), t.openTask()
	for i := range 24 {
		l := Lease([]string{a.ID, b.ID}[i%2])
		l.Owner, l.Provider = fmt.Sprint("owner", i%3), fmt.Sprint("p", i/8)
		l.Scopes = scopes.MustParseSet(fmt.Sprintf("orders:eu/%d:read", i))
		if i == 7 {
			l.Scopes = scopes.MustParseSet("orders:eu/*:read")
		}
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
		"text": {Text: "eu/1"}, "resource": {Resource: "eu/1"}, "resource above": {Resource: "eu"}, "other resource": {Resource: "us/1"}, "no wildcard": {Text: "%"}, "from": {From: minute(55)}, "to": {To: minute(90)},
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
			(q.Resource == "" || q.Resource == "eu" || slices.Contains([]string{q.Resource, "eu/*"}, l.Scopes.Scopes()[0].Resource()) && q.Resource != "us/1") &&
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
