package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// idsOf returns the ids of rows that were read without an error.
func idsOf[Row any](t *storeTest, err error, rows []Row, id func(Row) string) []string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = id(r)
	}
	return ids
}

// choose returns a function that selects ids by their positions.
func choose(ids []string) func(places ...int) []string {
	return func(places ...int) []string {
		out := make([]string, len(places))
		for i, n := range places {
			out[i] = ids[n]
		}
		return out
	}
}

func (t *storeTest) tasks(f broker.TaskFilter) []string {
	t.Helper()
	got, err := t.Store.Tasks(t.Context(), f)
	return idsOf(t, err, got, func(x broker.Task) string { return x.ID })
}

func (t *storeTest) leases(f broker.LeaseFilter) []string {
	t.Helper()
	if f.Now.IsZero() {
		f.Now = Epoch.Add(2 * time.Minute)
	}
	got, err := t.Store.Leases(t.Context(), f)
	return idsOf(t, err, got, func(x broker.Lease) string { return x.ID })
}

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
		"held":        {broker.TaskFilter{Held: true}, pick(4)},
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
