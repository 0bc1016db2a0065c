package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// RunStore tests the contract of broker.Store.
func RunStore(t *testing.T, open OpenStores) {
	run(t, open, ofStore, map[string]func(*storeTest){
		"OpenTask": openTask, "MoveTask": moveTask, "BindSandbox": bindSandbox, "IssueLease": issueLease, "Begin": begun, "EndLease": endLease, "EndLineage": endLineage,
		"OpenDelegated": openDelegated, "Uses": countedUses, "UsesRace": usesRace, "Below": belowAndTree,
		"Unit": unitIsAtomic, "Refuses": refusesBadRecords, "OneWinner": oneWinner, "Losers": losersDoNotHarm, "Duplicates": duplicatesInOneBatch, "Ended": mintsRacingTheEnd,
		"Context": withdrawnByContext, "Closed": closedStore, "Reopen": reopen, "Replicas": replicas,
		"DerivedStates": derivedStates, "Chain": chainUnderConcurrency, "Order": chainTime, "Checkpoints": checkpoints, "Break": breakOff,
		"Figures": figures, "Spending": spending, "LeaseLimits": leaseLimits,
	})
	RunLists(t, open)
}

// RunLists is the part of RunStore that depends on the store's collation.
func RunLists(t *testing.T, open OpenStores) {
	run(t, open, ofStore, map[string]func(*storeTest){
		"TaskFilters": taskFilters, "LeaseFilters": leaseFilters, "Pages": pages, "LeaseLists": leaseLists, "EntryLists": entryLists, "Entries": entryFilters,
		"Usage": usage,
	})
}

func openTask(t *storeTest) {
	task := t.openTask()
	t.same("task", t.task(task.ID), task)
	again := task
	again.Name = "another"
	t.want("again", t.Store.Append(t.Context(), broker.Record{OpenTask: &again, Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}}), broker.ErrExists)
	t.same("task", t.task(task.ID), task)
	t.same("entries", len(t.entries(broker.EntryFilter{TaskID: task.ID})), 1)

	limited := func(runner string) error {
		another := Task()
		another.Runner = runner
		return t.Store.Append(t.Context(), broker.Record{OpenTask: &another, OpenLimit: 2, Entries: []audit.Entry{Entry(audit.TaskOpened, another.ID)}})
	}
	t.want("second", limited(task.Runner), nil)
	t.want("third", limited(task.Runner), broker.ErrCap)
	t.want("of another runner", limited("else"), nil)
	t.append(broker.Record{MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, At: Epoch}})
	t.want("a paused one counts", limited(task.Runner), broker.ErrCap)
	t.append(broker.Record{MoveTask: closing(task.ID, Epoch)})
	t.want("a closed one does not", limited(task.Runner), nil)
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.TaskOpened})), 4)

	bare := broker.Task{ID: newID("tsk_"), State: broker.TaskOpen}
	t.append(broker.Record{OpenTask: &bare})
	t.same("bare task", t.task(bare.ID), bare)
}

func moveTask(t *storeTest) {
	task := t.openTask()
	for _, m := range []broker.TaskMove{
		{ID: task.ID, State: broker.TaskPaused, Reason: "lunch", By: "ci", As: broker.RoleRunner, At: Epoch.Add(time.Minute)},
		{ID: task.ID, State: broker.TaskOpen, By: "ci", As: broker.RoleRunner, At: Epoch.Add(2 * time.Minute)},
		{ID: task.ID, State: broker.TaskPaused, By: "ci", As: broker.RoleRunner, At: Epoch.Add(2 * time.Minute)},
		{ID: task.ID, State: broker.TaskPaused, Reason: "odd", By: "ops", As: broker.RoleOperator, At: Epoch.Add(2 * time.Minute)},
	} {
		t.append(broker.Record{MoveTask: &m})
		task.State, task.Reason, task.PausedBy, task.PausedAs = m.State, m.Reason, "", ""
		if m.State == broker.TaskPaused {
			task.PausedBy, task.PausedAs = m.By, m.As
		}
		t.same("task", t.task(task.ID), task)
	}
	for _, state := range []broker.TaskState{broker.TaskOpen, broker.TaskPaused} {
		for _, as := range []broker.Role{broker.RoleRunner, ""} {
			m := broker.TaskMove{ID: task.ID, State: state, By: "ci", As: as, At: Epoch.Add(time.Hour)}
			t.want("move what an operator paused", t.Store.Append(t.Context(), broker.Record{MoveTask: &m}), broker.ErrOutranked)
		}
	}
	t.same("task", t.task(task.ID), task)
	held := broker.TaskMove{ID: task.ID, State: broker.TaskPaused, Cause: broker.CauseAsks, By: "ebb", As: broker.RoleOperator, At: Epoch, From: broker.TaskOpen}
	t.want("a move from another state", t.Store.Append(t.Context(), broker.Record{MoveTask: &held}), broker.ErrDone)
	t.append(broker.Record{MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskOpen, By: "ops", As: broker.RoleOperator, At: Epoch}})
	t.append(broker.Record{MoveTask: &held})
	if got := t.task(task.ID); got.State != broker.TaskPaused || got.Cause != broker.CauseAsks {
		t.Errorf("held: %+v", got)
	}
	t.append(broker.Record{MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskOpen, By: "ops", As: broker.RoleOperator, At: Epoch}})
	if got := t.task(task.ID); got.State != broker.TaskOpen || got.Cause != "" {
		t.Errorf("resumed: %+v", got)
	}
	t.append(broker.Record{MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, By: "ops", As: broker.RoleOperator, At: Epoch}})
	task.PausedBy, task.PausedAs = "", ""
	m := closing(task.ID, Epoch.Add(3*time.Minute))
	t.append(broker.Record{MoveTask: m, Entries: []audit.Entry{Entry(audit.TaskClosed, task.ID)}})
	task.State, task.Cause, task.Reason, task.ClosedAt, task.ClosedBy = m.State, m.Cause, m.Reason, m.At, m.By
	t.same("task", t.task(task.ID), task)
	for _, state := range []broker.TaskState{broker.TaskOpen, broker.TaskPaused, broker.TaskClosed} {
		again := broker.TaskMove{ID: task.ID, State: state, Cause: broker.CauseCompleted, By: "x", At: Epoch.Add(time.Hour)}
		err := t.Store.Append(t.Context(), broker.Record{MoveTask: &again, Entries: []audit.Entry{Entry(audit.TaskClosed, task.ID)}})
		t.want("move a closed task", err, broker.ErrDone)
	}
	t.same("task", t.task(task.ID), task)
	t.same("entries", len(t.entries(broker.EntryFilter{TaskID: task.ID})), 2)
	t.want("unknown task", t.Store.Append(t.Context(), broker.Record{MoveTask: closing("tsk_none", Epoch)}), broker.ErrNotFound)
}

func bindSandbox(t *storeTest) {
	task := t.openTask()
	box := sandboxOf(task.ID)
	bind := func(id string, s broker.Sandbox) error {
		return t.Store.Append(t.Context(), broker.Record{BindSandbox: &broker.SandboxOf{TaskID: id, Sandbox: s}})
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

func issueLease(t *storeTest) {
	task := t.openTask()
	l := t.issue(Lease(task.ID))
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	again := l
	again.Tool = "another"
	t.want("again", t.Store.Append(t.Context(), broker.Record{IssueLease: &again, Entries: []audit.Entry{Entry(audit.LeaseIssued, task.ID)}}), broker.ErrExists)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), l)
	t.same("entries", len(t.entries(broker.EntryFilter{LeaseID: l.ID})), 1)

	t.append(broker.Record{MoveTask: &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, At: Epoch}})
	t.issue(Lease(task.ID)) // the LiveStore enforces the pause
	t.append(broker.Record{MoveTask: closing(task.ID, Epoch)})
	for name, id := range map[string]string{"closed": task.ID, "unknown": newID("tsk_")} {
		for _, state := range []broker.LeaseState{broker.LeaseLive, broker.LeaseIntent} {
			late := Lease(id)
			late.State = state
			t.want(name, t.Store.Append(t.Context(), broker.Record{IssueLease: &late, Entries: []audit.Entry{Entry(audit.LeaseIssued, id)}}), broker.ErrTaskClosed)
			if ls, err := t.Store.Leases(t.Context(), broker.LeaseFilter{IDs: []string{late.ID}, Now: Epoch}); err != nil || len(ls) != 0 {
				t.Errorf("%s: got %d leases, %v", name, len(ls), err)
			}
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.LeaseIssued})), 2)
}

// Units that were begun are committed by themselves, and each caller gets its own
// outcome, in any order.
func begun(t *storeTest) {
	task := t.openTask()
	l := Lease(task.ID)
	record := func(l broker.Lease) broker.Record {
		return broker.Record{IssueLease: &l, Entries: []audit.Entry{Entry(audit.LeaseIssued, task.ID)}}
	}
	first := t.Store.Begin(t.Context(), record(l))
	second := t.Store.Begin(t.Context(), record(Lease(task.ID)))
	again := t.Store.Begin(t.Context(), record(l))
	empty := t.Store.Begin(t.Context(), broker.Record{})
	end := t.Store.Begin(t.Context(), broker.Record{MoveTask: closing(task.ID, Epoch)})
	t.want("end", end(), nil)
	late := t.Store.Begin(t.Context(), record(Lease(task.ID)))
	t.want("late", late(), broker.ErrTaskClosed)
	if empty() == nil {
		t.Error("an empty record was taken")
	}
	// The revocation may have been in their batch, and then counts first.
	ok := 0
	for name, wait := range map[string]func() error{"first": first, "second": second, "again": again} {
		switch err := wait(); {
		case err == nil:
			ok++
		case !errors.Is(err, broker.ErrTaskClosed) && (name == "second" || !errors.Is(err, broker.ErrExists)):
			t.Errorf("%s: got %v", name, err)
		}
	}
	t.same("entries", len(t.entries(broker.EntryFilter{Kind: audit.LeaseIssued})), ok)
}

func endLease(t *storeTest) {
	task := t.openTask()
	end := func(id string, s broker.LeaseState, at time.Time) error {
		return t.Store.Append(t.Context(), broker.Record{EndLease: &broker.LeaseEnd{ID: id, State: s, By: "ops", Cause: broker.CauseStopped, At: at}})
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
		l.State = broker.LeaseRevoked // refused from its first moment on
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

// The revocation of a lease revokes the leases narrowed from it, and no others.
func endLineage(t *storeTest) {
	task := t.openTask()
	narrow := func(from string) broker.Lease {
		l := Lease(task.ID)
		l.ParentID = from
		return t.issue(l)
	}
	now := Epoch.Add(2 * time.Minute)
	revoke := func(id, by string, s broker.LeaseState) error {
		return t.Store.Append(t.Context(), broker.Record{EndLease: &broker.LeaseEnd{ID: id, State: s, By: by, At: now}})
	}
	root, other := narrow(""), narrow("")
	a, b := narrow(root.ID), narrow(root.ID)
	deep, early := narrow(a.ID), narrow(a.ID)
	last := narrow(deep.ID)
	under := narrow(early.ID)
	t.same("lease", t.leaseAt(last.ID, now), last)
	t.same("children", t.leases(broker.LeaseFilter{Parents: []string{root.ID, early.ID}}), []string{a.ID, b.ID, under.ID})
	t.same("no children", t.leases(broker.LeaseFilter{Parents: []string{"", last.ID}}), []string{})
	t.want("end one", revoke(early.ID, "box", broker.LeaseRevoked), nil)
	t.want("end a lineage", revoke(root.ID, "ops", broker.LeaseRevoked), nil)
	for id, by := range map[string]string{root.ID: "ops", a.ID: "ops", b.ID: "ops", deep.ID: "ops", last.ID: "ops", early.ID: "box", under.ID: "box", other.ID: ""} {
		got := t.leaseAt(id, now)
		if got.RevokedBy != by || (got.State == broker.LeaseRevoked) != (by != "") || got.RevokedAt.IsZero() != (by == "") {
			t.Errorf("%s is %s since %v by %q, want by %q", id, got.State, got.RevokedAt, got.RevokedBy, by)
		}
	}
	late := narrow(root.ID) // its mint will find the parent revoked
	t.want("again", revoke(root.ID, "x", broker.LeaseRevoked), broker.ErrDone)
	t.want("the late one", revoke(late.ID, "ebb", broker.LeaseRevoked), nil)
	child := narrow(other.ID)
	t.want("expire", revoke(other.ID, "", broker.LeaseExpired), nil)
	t.same("what was narrowed from an expired one", t.leaseAt(child.ID, now).State, broker.LeaseLive)
}
