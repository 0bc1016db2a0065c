package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

func oneWinner(t *storeTest) {
	second := t.another()
	side := func(i int) broker.Store { return []broker.Store{t.Store, second.Store}[i%2] }
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
			b := sandboxOf(other.ID)
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
func losersDoNotHarm(t *storeTest) {
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
			if err := t.Store.Append(t.Context(), r); !errors.Is(err, lost) {
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
func duplicatesInOneBatch(t *storeTest) {
	task := t.openTask()
	for range 20 {
		l := Lease(task.ID)
		errs := race(16, func(int) error {
			return t.Store.Append(t.Context(), broker.Record{IssueLease: &l, Entries: []audit.Entry{Entry(audit.LeaseIssued, task.ID)}})
		})
		t.same("winners", t.winners("issue", errs, broker.ErrExists), 1)
	}
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.LeaseIssued})), 20)
	t.verify()
}

// The close of a task counts its leases: no lease may be recorded afterwards, whichever
// replica minted it.
func mintsRacingTheEnd(t *storeTest) {
	second := t.another()
	other := t.openTask() // it stays open, in the same batches
	for range 10 {
		task := t.openTask()
		var counted int
		var over atomic.Bool
		issued := func() (n int) {
			for f := (broker.LeaseFilter{TaskID: task.ID, Now: Epoch, Page: broker.Page{Limit: 1000}}); ; {
				ls, err := t.Store.Leases(t.Context(), f)
				t.want("read", err, nil)
				if n += len(ls); len(ls) < f.Page.Limit {
					return n
				}
				f.Page.After = ls[len(ls)-1].ID
			}
		}
		errs := race(17, func(i int) error {
			if i == 16 {
				for issued() < 20 { // until all goroutines mint
				}
				err := t.Store.Append(t.Context(), broker.Record{MoveTask: closing(task.ID, Epoch), Entries: []audit.Entry{Entry(audit.TaskClosed, task.ID)}})
				counted = issued()
				over.Store(true)
				return err
			}
			for {
				for _, id := range []string{other.ID, task.ID} {
					l := Lease(id)
					e := Entry(audit.LeaseIssued, id)
					e.LeaseID = l.ID
					late := over.Load() && id == task.ID
					err := []broker.Store{t.Store, second.Store}[i%2].Append(t.Context(), broker.Record{IssueLease: &l, Entries: []audit.Entry{e}})
					switch {
					case id == task.ID && errors.Is(err, broker.ErrTaskClosed):
						return nil
					case err == nil && late:
						return errors.New("minted after the end")
					case err != nil:
						return err
					}
				}
			}
		})
		t.want("mint and end", errors.Join(errs...), nil)
		t.same("leases after the end", issued(), counted)
		t.same("entries", len(t.entries(broker.EntryFilter{TaskID: task.ID, Kind: audit.LeaseIssued})), counted)
	}
	t.verify()
}

func withdrawnByContext(t *storeTest) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	task := Task()
	for range 50 { // the answer is correct, whichever call is first
		err := t.Store.Append(gone, broker.Record{OpenTask: &task})
		got, rerr := t.Store.Tasks(t.Context(), broker.TaskFilter{IDs: []string{task.ID}})
		if rerr != nil || (err == nil) != (len(got) == 1) {
			t.Fatalf("append said %v, and %d tasks are there (%v)", err, len(got), rerr)
		}
		if err == nil {
			task = Task()
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	for e, err := range t.Store.Entries(gone, broker.EntryFilter{}) {
		if err == nil {
			t.Fatalf("read %v with a cancelled context", e)
		}
	}
}

func replicas(t *storeTest) {
	second := t.another()
	errs := race(16, func(i int) error {
		j := []broker.Store{t.Store, second.Store}[i%2]
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

func closedStore(t *storeTest) {
	task := t.openTask()
	t.want("close", t.Close(), nil)
	err := t.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}})
	for _, s := range []error{nil, broker.ErrDone, broker.ErrExists, broker.ErrNotFound} {
		if errors.Is(err, s) {
			t.Errorf("append after close: got %v", err)
		}
	}
	if _, err := t.Store.Tasks(t.Context(), broker.TaskFilter{}); err == nil {
		t.Error("read after close")
	}
}

func reopen(t *storeTest) {
	task := t.openTask()
	l := t.issue(Lease(task.ID))
	t.want("close", t.Close(), nil)
	t.Stores = t.another()
	t.same("task", t.task(task.ID), task)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	t.issue(Lease(task.ID))
	heads, err := t.Store.Heads(t.Context())
	if err != nil || len(heads) != 2 || heads[0].Writer == heads[1].Writer || heads[0].Seq != 2 || heads[1].Seq != 1 {
		t.Errorf("got heads %+v, %v; want one chain for each run", heads, err)
	}
	t.verify()
}

func unitIsAtomic(t *storeTest) {
	task := t.openTask()
	taken := t.issue(Lease(task.ID))
	fresh := Lease(task.ID)
	before := len(t.entries(broker.EntryFilter{}))
	for name, r := range map[string]broker.Record{
		"the lease exists": {MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, At: Epoch}, BindSandbox: &broker.SandboxOf{TaskID: task.ID, Sandbox: sandboxOf(task.ID)}, IssueLease: &taken},
		"the end loses":    {OpenTask: &broker.Task{ID: "tsk_x", State: broker.TaskOpen}, IssueLease: &fresh, EndLease: &broker.LeaseEnd{ID: "lse_none", State: broker.LeaseRevoked, At: Epoch}},
		"the move loses":   {OpenTask: &broker.Task{ID: "tsk_x", State: broker.TaskOpen}, MoveTask: closing("tsk_none", Epoch), IssueLease: &fresh},
	} {
		r.Entries = []audit.Entry{Entry(audit.TaskClosed, task.ID)}
		if err := t.Store.Append(t.Context(), r); !errors.Is(err, broker.ErrExists) && !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	t.same("task", t.task(task.ID), task)
	for what, got := range map[string]func() (int, error){
		"tasks": func() (int, error) {
			x, err := t.Store.Tasks(t.Context(), broker.TaskFilter{IDs: []string{"tsk_x"}})
			return len(x), err
		},
		"leases": func() (int, error) {
			x, err := t.Store.Leases(t.Context(), broker.LeaseFilter{IDs: []string{fresh.ID}, Now: Epoch})
			return len(x), err
		},
	} {
		if n, err := got(); n != 0 || err != nil {
			t.Errorf("%s of failed units: got %d, %v", what, n, err)
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{})), before)
	// One unit may contain all parts.
	box := sandboxOf(fresh.TaskID)
	t.append(broker.Record{
		MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, At: Epoch}, BindSandbox: &broker.SandboxOf{TaskID: task.ID, Sandbox: box},
		IssueLease: &fresh, EndLease: &broker.LeaseEnd{ID: taken.ID, State: broker.LeaseRevoked, At: Epoch.Add(time.Minute)},
		Entries: []audit.Entry{Entry(audit.TaskPaused, task.ID), Entry(audit.SandboxEnrolled, task.ID), Entry(audit.LeaseIssued, task.ID)},
	})
	t.same("entries", len(t.entries(broker.EntryFilter{})), before+3)
}

func refusesBadRecords(t *storeTest) {
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
	late := func(r broker.Record) broker.Record {
		r.Late = true
		return r
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
		"late task":          {OpenTask: &broker.Task{ID: "tsk_x", State: broker.TaskOpen}, Late: true},
		"late end":           {MoveTask: closing(task.ID, Epoch), Late: true},
		"late lease":         late(lease(func(*broker.Lease) {})),
		"late settling":      {SettleLease: &broker.LeaseMove{}, Late: true},
		"entry with a list":  entry(func(e *audit.Entry) { e.Data = []byte(`[1]`) }),
	} {
		if err := t.Store.Append(t.Context(), r); err == nil {
			t.Errorf("%s: appended", name)
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{})), 1)
	// An entry is stored, late or not.
	t.append(late(entry(func(*audit.Entry) {})))
	t.same("entries", len(t.entries(broker.EntryFilter{})), 2)
}
