package storetest

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
)

// Stores is one process run on a database.
type Stores struct {
	Store         broker.Store
	ApprovalStore broker.ApprovalStore
	Policies      broker.PolicyStore
	Sessions      people.Store // of the same database: a break-glass period begins in a session
	Close         func() error
}

// OpenStores makes an empty database for t. Each call of the returned function is another
// process run on that database; the end of the test closes all of them.
type OpenStores = func(t *testing.T) func() Stores

// RunStore tests the contract of broker.Store.
func RunStore(t *testing.T, open OpenStores) {
	run(t, open, map[string]func(*storeTest){
		"OpenTask": openTask, "MoveTask": moveTask, "BindSandbox": bindSandbox, "IssueLease": issueLease, "Begin": begun, "EndLease": endLease, "EndLineage": endLineage,
		"OpenDelegated": openDelegated, "Uses": countedUses, "UsesRace": usesRace, "Below": belowAndTree,
		"Unit": unitIsAtomic, "Refuses": refusesBadRecords, "OneWinner": oneWinner, "Losers": losersDoNotHarm, "Duplicates": duplicatesInOneBatch, "Ended": mintsRacingTheEnd,
		"Context": withdrawnByContext, "Closed": closedStore, "Reopen": reopen, "Replicas": replicas,
		"DerivedStates": derivedStates, "Chain": chainUnderConcurrency, "Order": chainTime, "Checkpoints": checkpoints, "Break": breakOff,
		"Figures": figures,
	})
	RunLists(t, open)
}

// RunLists is the part of RunStore that depends on the store's collation.
func RunLists(t *testing.T, open OpenStores) {
	run(t, open, map[string]func(*storeTest){
		"TaskFilters": taskFilters, "LeaseFilters": leaseFilters, "Pages": pages, "LeaseLists": leaseLists, "EntryLists": entryLists, "Entries": entryFilters,
		"Usage": usage,
	})
}

func run(t *testing.T, open OpenStores, tests map[string]func(*storeTest)) {
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			another := open(t)
			first := another()
			tests[name](&storeTest{T: t, another: another, Stores: first})
		})
	}
}

type storeTest struct {
	*testing.T
	Stores
	another func() Stores
}

func (t *storeTest) append(r broker.Record) {
	t.Helper()
	t.want("append", t.Store.Append(t.Context(), r), nil)
}

func (t *storeTest) want(call string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", call, err, want)
	}
}

func (t *storeTest) same(what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// openTask appends a new task.
func (t *storeTest) openTask() broker.Task {
	t.Helper()
	task := Task()
	t.append(broker.Record{OpenTask: &task, Entries: []audit.Entry{Entry(audit.TaskOpened, task.ID)}})
	return task
}

func (t *storeTest) task(id string) broker.Task {
	t.Helper()
	got, err := t.Store.Tasks(t.Context(), broker.TaskFilter{IDs: []string{id}})
	if err != nil || len(got) != 1 {
		t.Fatalf("task %s: got %d, %v", id, len(got), err)
	}
	return got[0]
}

func (t *storeTest) issue(l broker.Lease) broker.Lease {
	t.Helper()
	e := Entry(audit.LeaseIssued, l.TaskID)
	e.LeaseID = l.ID
	t.append(broker.Record{IssueLease: &l, Entries: []audit.Entry{e}})
	return l
}

func (t *storeTest) leaseAt(id string, now time.Time) broker.Lease {
	t.Helper()
	got, err := t.Store.Leases(t.Context(), broker.LeaseFilter{IDs: []string{id}, Now: now})
	if err != nil || len(got) != 1 {
		t.Fatalf("lease %s: got %d, %v", id, len(got), err)
	}
	return got[0]
}

// entries returns the entries of the audit log.
func (t *storeTest) entries(f broker.EntryFilter) []audit.Entry {
	t.Helper()
	var out []audit.Entry
	for e, err := range t.Store.Entries(t.Context(), f) {
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
