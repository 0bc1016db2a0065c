package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
)

// Stores is one process run on a database.
type Stores struct {
	Journal broker.Journal
	Desk    broker.Desk
	Close   func() error
}

// OpenStores makes an empty database for t. Each call of what it returns is
// another process run on that database; the end of the test closes all.
type OpenStores = func(t *testing.T) func() Stores

// RunJournal runs every sentence of the contract of broker.Journal.
func RunJournal(t *testing.T, open OpenStores) {
	run(t, open, map[string]func(*journalTest){
		"OpenTask": openTask, "MoveTask": moveTask, "BindSandbox": bindSandbox, "IssueLease": issueLease, "EndLease": endLease,
		"Unit": unitIsAtomic, "Refuses": refusesBadRecords, "OneWinner": oneWinner, "Losers": losersDoNotHarm, "Duplicates": duplicatesInOneBatch,
		"Context": withdrawnByContext, "Closed": closedStore, "Reopen": reopen, "Replicas": replicas,
		"TaskFilters": taskFilters, "LeaseFilters": leaseFilters, "DerivedStates": derivedStates, "Pages": pages,
		"Chain": chainUnderConcurrency, "Order": chainTime, "Entries": entryFilters, "Checkpoints": checkpoints, "Break": breakOff,
	})
}

func run(t *testing.T, open OpenStores, tests map[string]func(*journalTest)) {
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			another := open(t)
			first := another()
			tests[name](&journalTest{T: t, another: another, Stores: first})
		})
	}
}

type journalTest struct {
	*testing.T
	Stores
	another func() Stores
}

func (t *journalTest) append(r broker.Record) {
	t.Helper()
	t.want("append", t.Journal.Append(t.Context(), r), nil)
}

func (t *journalTest) want(call string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", call, err, want)
	}
}

func (t *journalTest) same(what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// openTask appends a new task.
func (t *journalTest) openTask() broker.Task {
	t.Helper()
	task := Task()
	t.append(broker.Record{OpenTask: &task, Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}})
	return task
}

func (t *journalTest) task(id string) broker.Task {
	t.Helper()
	got, err := t.Journal.Tasks(t.Context(), broker.TaskFilter{IDs: []string{id}})
	if err != nil || len(got) != 1 {
		t.Fatalf("task %s: got %d, %v", id, len(got), err)
	}
	return got[0]
}

func (t *journalTest) issue(l broker.Lease) broker.Lease {
	t.Helper()
	e := Entry(audit.LeaseIssued, l.TaskID)
	e.LeaseID = l.ID
	t.append(broker.Record{IssueLease: &l, Entries: []audit.Entry{e}})
	return l
}

func (t *journalTest) leaseAt(id string, now time.Time) broker.Lease {
	t.Helper()
	got, err := t.Journal.Leases(t.Context(), broker.LeaseFilter{IDs: []string{id}, Now: now})
	if err != nil || len(got) != 1 {
		t.Fatalf("lease %s: got %d, %v", id, len(got), err)
	}
	return got[0]
}

// entries counts what is on the record.
func (t *journalTest) entries(f broker.EntryFilter) []audit.Entry {
	t.Helper()
	var out []audit.Entry
	for e, err := range t.Journal.Entries(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func closing(id string, at time.Time) *broker.TaskMove {
	return &broker.TaskMove{ID: id, State: broker.TaskClosed, Cause: broker.CauseStopped, Reason: "odd", By: "ops", At: at}
}

func openTask(t *journalTest) {
	task := t.openTask()
	t.same("task", t.task(task.ID), task)
	again := task
	again.Name = "another"
	t.want("again", t.Journal.Append(t.Context(), broker.Record{OpenTask: &again, Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}}), broker.ErrExists)
	t.same("task", t.task(task.ID), task)
	t.same("entries", len(t.entries(broker.EntryFilter{TaskID: task.ID})), 1)

	bare := broker.Task{ID: ID("tsk_"), State: broker.TaskOpen}
	t.append(broker.Record{OpenTask: &bare})
	t.same("bare task", t.task(bare.ID), bare)
}

func moveTask(t *journalTest) {
	task := t.openTask()
	for _, m := range []broker.TaskMove{
		{ID: task.ID, State: broker.TaskPaused, Reason: "lunch", By: "ops", At: Epoch.Add(time.Minute)},
		{ID: task.ID, State: broker.TaskOpen, By: "ops", At: Epoch.Add(2 * time.Minute)},
	} {
		t.append(broker.Record{MoveTask: &m})
		task.State, task.Reason = m.State, m.Reason
		t.same("task", t.task(task.ID), task)
	}
	m := closing(task.ID, Epoch.Add(3*time.Minute))
	t.append(broker.Record{MoveTask: m, Entries: []audit.Entry{Entry(audit.TaskClosed, task.ID)}})
	task.State, task.Cause, task.Reason, task.ClosedAt, task.ClosedBy = m.State, m.Cause, m.Reason, m.At, m.By
	t.same("task", t.task(task.ID), task)
	for _, state := range []broker.TaskState{broker.TaskOpen, broker.TaskPaused, broker.TaskClosed} {
		again := broker.TaskMove{ID: task.ID, State: state, Cause: broker.CauseCompleted, By: "x", At: Epoch.Add(time.Hour)}
		err := t.Journal.Append(t.Context(), broker.Record{MoveTask: &again, Entries: []audit.Entry{Entry(audit.TaskClosed, task.ID)}})
		t.want("move a closed task", err, broker.ErrDone)
	}
	t.same("task", t.task(task.ID), task)
	t.same("entries", len(t.entries(broker.EntryFilter{TaskID: task.ID})), 2)
	t.want("unknown task", t.Journal.Append(t.Context(), broker.Record{MoveTask: closing("tsk_none", Epoch)}), broker.ErrNotFound)
}

func bindSandbox(t *journalTest) {
	task := t.openTask()
	box := Sandbox(task.ID)
	bind := func(id string, s broker.Sandbox) error {
		return t.Journal.Append(t.Context(), broker.Record{BindSandbox: &broker.SandboxOf{TaskID: id, Sandbox: s}})
	}
	t.want("bind", bind(task.ID, box), nil)
	task.Sandbox = &box
	t.same("task", t.task(task.ID), task)
	other := box
	other.JKT = "thief"
	t.want("bind again", bind(task.ID, other), broker.ErrDone)
	t.same("task", t.task(task.ID), task)
	t.want("unknown", bind("tsk_none", box), broker.ErrNotFound)
	closed := t.openTask()
	t.append(broker.Record{MoveTask: closing(closed.ID, Epoch)})
	t.want("closed", bind(closed.ID, box), broker.ErrDone)
}

func issueLease(t *journalTest) {
	task := t.openTask()
	l := t.issue(Lease(task.ID))
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	again := l
	again.Tool = "another"
	t.want("again", t.Journal.Append(t.Context(), broker.Record{IssueLease: &again, Entries: []audit.Entry{Entry(audit.LeaseIssued, task.ID)}}), broker.ErrExists)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	t.same("entries", len(t.entries(broker.EntryFilter{LeaseID: l.ID})), 1)
}

func endLease(t *journalTest) {
	task := t.openTask()
	end := func(id string, s broker.LeaseState, at time.Time) error {
		return t.Journal.Append(t.Context(), broker.Record{EndLease: &broker.LeaseEnd{ID: id, State: s, By: "ops", Cause: broker.CauseStopped, At: at}})
	}
	now := Epoch.Add(2 * time.Minute)
	for _, start := range []broker.LeaseState{broker.LeaseLive, broker.LeaseIntent} {
		l := Lease(task.ID)
		l.State = start
		t.issue(l)
		t.want("owe", end(l.ID, broker.LeaseRevoking, now), nil)
		l.State, l.RevokedAt, l.RevokedBy, l.Cause = broker.LeaseRevoking, now, "ops", broker.CauseStopped
		t.same("lease", t.leaseAt(l.ID, now), l)
		t.want("revoke", end(l.ID, broker.LeaseRevoked, now.Add(time.Minute)), nil)
		l.State = broker.LeaseRevoked // and refused since the first moment
		t.same("lease", t.leaseAt(l.ID, now), l)
		for _, s := range []broker.LeaseState{broker.LeaseRevoked, broker.LeaseRevoking, broker.LeaseExpired, broker.LeaseUnconfirmed} {
			t.want("end it again", end(l.ID, s, now.Add(time.Hour)), broker.ErrDone)
		}
		t.same("lease", t.leaseAt(l.ID, now), l)
	}
	expired := t.issue(Lease(task.ID))
	t.want("expire", end(expired.ID, broker.LeaseExpired, expired.ExpiresAt), nil)
	if got := t.leaseAt(expired.ID, now); got.State != broker.LeaseExpired || !got.RevokedAt.IsZero() {
		t.Errorf("got %+v, want expired and never revoked", got)
	}
	t.want("unknown", end("lse_none", broker.LeaseRevoked, now), broker.ErrNotFound)
	for _, s := range []broker.LeaseState{"", broker.LeaseLive, broker.LeaseIntent, "gone"} {
		if err := end(expired.ID, s, now); err == nil || errors.Is(err, broker.ErrDone) {
			t.Errorf("end as %q: got %v, want a refusal of the record", s, err)
		}
	}
}

func unitIsAtomic(t *journalTest) {
	task := t.openTask()
	taken := t.issue(Lease(task.ID))
	fresh := Lease(task.ID)
	before := len(t.entries(broker.EntryFilter{}))
	for name, r := range map[string]broker.Record{
		"the lease exists": {MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, At: Epoch}, BindSandbox: &broker.SandboxOf{TaskID: task.ID, Sandbox: Sandbox(task.ID)}, IssueLease: &taken},
		"the end loses":    {OpenTask: &broker.Task{ID: "tsk_x", State: broker.TaskOpen}, IssueLease: &fresh, EndLease: &broker.LeaseEnd{ID: "lse_none", State: broker.LeaseRevoked, At: Epoch}},
		"the move loses":   {OpenTask: &broker.Task{ID: "tsk_x", State: broker.TaskOpen}, MoveTask: closing("tsk_none", Epoch), IssueLease: &fresh},
	} {
		r.Entries = []audit.Entry{Entry(audit.TaskClosed, task.ID)}
		if err := t.Journal.Append(t.Context(), r); !errors.Is(err, broker.ErrExists) && !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	t.same("task", t.task(task.ID), task)
	for what, got := range map[string]func() (int, error){
		"tasks": func() (int, error) {
			x, err := t.Journal.Tasks(t.Context(), broker.TaskFilter{IDs: []string{"tsk_x"}})
			return len(x), err
		},
		"leases": func() (int, error) {
			x, err := t.Journal.Leases(t.Context(), broker.LeaseFilter{IDs: []string{fresh.ID}, Now: Epoch})
			return len(x), err
		},
	} {
		if n, err := got(); n != 0 || err != nil {
			t.Errorf("%s of failed units: got %d, %v", what, n, err)
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{})), before)
	// One unit may do everything.
	box := Sandbox(fresh.TaskID)
	t.append(broker.Record{
		MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, At: Epoch}, BindSandbox: &broker.SandboxOf{TaskID: task.ID, Sandbox: box},
		IssueLease: &fresh, EndLease: &broker.LeaseEnd{ID: taken.ID, State: broker.LeaseRevoked, At: Epoch.Add(time.Minute)},
		Entries: []audit.Entry{Entry(audit.TaskPaused, task.ID), Entry(audit.SandboxEnrolled, task.ID), Entry(audit.LeaseIssued, task.ID)},
	})
	t.same("entries", len(t.entries(broker.EntryFilter{})), before+3)
}

func refusesBadRecords(t *journalTest) {
	task := t.openTask()
	lease := func(f func(*broker.Lease)) broker.Record {
		l := Lease(task.ID)
		f(&l)
		return broker.Record{IssueLease: &l}
	}
	entry := func(f func(*audit.Entry)) broker.Record {
		e := Entry(audit.TaskOpened, task.ID)
		f(&e)
		return broker.Record{Entries: []audit.Entry{e}}
	}
	for name, r := range map[string]broker.Record{
		"empty":              {},
		"task without id":    {OpenTask: &broker.Task{State: broker.TaskOpen}},
		"task without state": {OpenTask: &broker.Task{ID: "tsk_x"}},
		"task with NUL":      {OpenTask: &broker.Task{ID: "tsk_x", State: broker.TaskOpen, Name: "a\x00b"}},
		"task not UTF-8":     {OpenTask: &broker.Task{ID: "tsk_x", State: broker.TaskOpen, Owner: "a\xff"}},
		"unknown state":      {MoveTask: &broker.TaskMove{ID: task.ID, State: "gone", At: Epoch}},
		"close without time": {MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskClosed, Cause: broker.CauseStopped}},
		"close for nothing":  {MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskClosed, At: Epoch}},
		"sandbox without id": {BindSandbox: &broker.SandboxOf{TaskID: task.ID}},
		"lease without id":   lease(func(l *broker.Lease) { l.ID = "" }),
		"lease that ended":   lease(func(l *broker.Lease) { l.State = broker.LeaseRevoked }),
		"lease in no state":  lease(func(l *broker.Lease) { l.State = "" }),
		"lease of no time":   lease(func(l *broker.Lease) { l.ExpiresAt = l.IssuedAt }),
		"lease with NUL":     lease(func(l *broker.Lease) { l.Tool = "\x00" }),
		"unknown kind":       entry(func(e *audit.Entry) { e.Kind = "task.exploded" }),
		"entry by nobody":    entry(func(e *audit.Entry) { e.Actor = "" }),
		"entry with a list":  entry(func(e *audit.Entry) { e.Data = []byte(`[1]`) }),
	} {
		if err := t.Journal.Append(t.Context(), r); err == nil {
			t.Errorf("%s: appended", name)
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{})), 1)
}

// race runs f in n goroutines at once and returns their errors.
func race(n int, f func(i int) error) []error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// winners counts successes; every other error must be lost.
func (t *journalTest) winners(what string, errs []error, lost error) int {
	t.Helper()
	n := 0
	for _, err := range errs {
		if err == nil {
			n++
		} else if !errors.Is(err, lost) {
			t.Errorf("%s: got %v, want %v", what, err, lost)
		}
	}
	return n
}

func oneWinner(t *journalTest) {
	second := t.another()
	side := func(i int) broker.Journal { return []broker.Journal{t.Journal, second.Journal}[i%2] }
	task := Task()
	other := t.openTask()
	l := t.issue(Lease(other.ID))
	for _, tt := range []struct {
		name string
		r    func(i int) broker.Record
		lost error
		kind string
	}{
		{"open", func(i int) broker.Record { return broker.Record{OpenTask: &task} }, broker.ErrExists, audit.TaskTicket},
		{"bind", func(i int) broker.Record {
			b := Sandbox(other.ID)
			b.JKT = fmt.Sprint(i)
			return broker.Record{BindSandbox: &broker.SandboxOf{TaskID: other.ID, Sandbox: b}}
		}, broker.ErrDone, audit.SandboxEnrolled},
		{"end", func(i int) broker.Record {
			return broker.Record{EndLease: &broker.LeaseEnd{ID: l.ID, State: broker.LeaseRevoked, By: fmt.Sprint(i), At: Epoch}}
		}, broker.ErrDone, audit.LeaseRevoked},
		{"close", func(i int) broker.Record {
			return broker.Record{MoveTask: closing(other.ID, Epoch.Add(time.Duration(i)*time.Second))}
		}, broker.ErrDone, audit.TaskClosed},
	} {
		errs := race(16, func(i int) error {
			r := tt.r(i)
			r.Entries = []audit.Entry{Entry(tt.kind, other.ID)}
			return side(i).Append(context.WithoutCancel(t.Context()), r)
		})
		t.same(tt.name+": winners", t.winners(tt.name, errs, tt.lost), 1)
		t.same(tt.name+": entries", len(t.entries(broker.EntryFilter{Kind: tt.kind})), 1)
	}
}

// Units that lose or are malformed share batches with units that win.
func losersDoNotHarm(t *journalTest) {
	task := t.openTask()
	taken := t.issue(Lease(task.ID))
	var mu sync.Mutex
	won := map[string]bool{}
	errs := race(64, func(i int) error {
		for j := range 10 {
			l := Lease(task.ID)
			r := broker.Record{IssueLease: &l}
			e := Entry(audit.LeaseIssued, task.ID)
			e.LeaseID = l.ID
			lost := error(nil)
			switch (i + j) % 4 {
			case 0:
				r, lost = broker.Record{IssueLease: &taken}, broker.ErrExists
			case 1:
				r.EndLease, lost = &broker.LeaseEnd{ID: "lse_none", State: broker.LeaseRevoked, At: Epoch}, broker.ErrNotFound
			default:
				mu.Lock()
				won[l.ID] = true
				mu.Unlock()
			}
			r.Entries = []audit.Entry{e}
			if err := t.Journal.Append(t.Context(), r); !errors.Is(err, lost) {
				return fmt.Errorf("got %w, want %v", err, lost)
			}
		}
		return nil
	})
	t.want("losers and winners", errors.Join(errs...), nil)
	got := map[string]bool{}
	for _, e := range t.entries(broker.EntryFilter{Kind: audit.LeaseIssued}) {
		if e.LeaseID != taken.ID {
			got[e.LeaseID] = true
		}
	}
	if !maps.Equal(got, won) {
		t.Errorf("%d units are on the record, want the %d that won", len(got), len(won))
	}
	t.verify()
}

// The same id twice in one batch: the first wins.
func duplicatesInOneBatch(t *journalTest) {
	task := t.openTask()
	for range 20 {
		l := Lease(task.ID)
		errs := race(16, func(int) error {
			return t.Journal.Append(t.Context(), broker.Record{IssueLease: &l, Entries: []audit.Entry{Entry(audit.LeaseIssued, task.ID)}})
		})
		t.same("winners", t.winners("issue", errs, broker.ErrExists), 1)
	}
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.LeaseIssued})), 20)
	t.verify()
}

func withdrawnByContext(t *journalTest) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	task := Task()
	for range 50 { // whichever is faster, the answer is the truth
		err := t.Journal.Append(gone, broker.Record{OpenTask: &task})
		got, rerr := t.Journal.Tasks(t.Context(), broker.TaskFilter{IDs: []string{task.ID}})
		if rerr != nil || (err == nil) != (len(got) == 1) {
			t.Fatalf("append said %v, and %d tasks are there (%v)", err, len(got), rerr)
		}
		if err == nil {
			task = Task()
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	for e, err := range t.Journal.Entries(gone, broker.EntryFilter{}) {
		if err == nil {
			t.Fatalf("read %v with a cancelled context", e)
		}
	}
}

func closedStore(t *journalTest) {
	task := t.openTask()
	t.want("close", t.Close(), nil)
	err := t.Journal.Append(t.Context(), broker.Record{Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}})
	for _, s := range []error{nil, broker.ErrDone, broker.ErrExists, broker.ErrNotFound} {
		if errors.Is(err, s) {
			t.Errorf("append after close: got %v", err)
		}
	}
	if _, err := t.Journal.Tasks(t.Context(), broker.TaskFilter{}); err == nil {
		t.Error("read after close")
	}
}

func reopen(t *journalTest) {
	task := t.openTask()
	l := t.issue(Lease(task.ID))
	t.want("close", t.Close(), nil)
	t.Stores = t.another()
	t.same("task", t.task(task.ID), task)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	t.issue(Lease(task.ID))
	heads, err := t.Journal.Heads(t.Context())
	if err != nil || len(heads) != 2 || heads[0].Writer == heads[1].Writer || heads[0].Seq != 2 || heads[1].Seq != 1 {
		t.Errorf("got heads %+v, %v; want one chain for each run", heads, err)
	}
	t.verify()
}

func replicas(t *journalTest) {
	second := t.another()
	errs := race(16, func(i int) error {
		j := []broker.Journal{t.Journal, second.Journal}[i%2]
		for range 20 {
			task := Task()
			if err := j.Append(t.Context(), broker.Record{OpenTask: &task, Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}}); err != nil {
				return err
			}
		}
		return nil
	})
	t.want("append", errors.Join(errs...), nil)
	t.same("entries", len(t.entries(broker.EntryFilter{})), 320)
	t.verify()
}
