package storetest

import (
	"errors"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

func unitIsAtomic(t *storeTest) {
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
	box := Sandbox(fresh.TaskID)
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
