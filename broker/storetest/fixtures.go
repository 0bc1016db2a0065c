package storetest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Epoch is the time of the fixtures.
var Epoch = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

// newID returns an id that sorts by the time of its creation, as a UUIDv7 does.
func newID(prefix string) string {
	var tail [8]byte
	_, _ = rand.Read(tail[:])
	return fmt.Sprintf("%s%016x%s", prefix, time.Now().UnixNano(), hex.EncodeToString(tail[:]))
}

// Task returns an open task with every member set.
func Task() broker.Task {
	return broker.Task{
		ID: newID("tsk_"), Name: "fix the \"tide\" \U0001f30a", Kind: "bugfix", Owner: "ann@example.org", Runner: "ci",
		Labels:  map[string]string{"team": "harbour", "x": ""},
		Ceiling: scopes.MustParseSet("orders:eu/**:read orders:eu/1:write"),
		Caps:    broker.Caps{Leases: 5, MintsPerMinute: 60, OpenRequests: 3},
		Expect:  broker.Expect{Attestor: "enroll", Selectors: map[string]string{"repo": "ebb"}}, Heartbeat: 30,
		OpenedAt: Epoch, Deadline: Epoch.Add(time.Hour), State: broker.TaskOpen,
	}
}

// sandboxOf returns a sandbox of the task.
func sandboxOf(taskID string) broker.Sandbox {
	return broker.Sandbox{
		ID: "sbx_" + taskID[4:], Attestor: "enroll", Subject: "box", Class: "ticket", JKT: "jkt", JWK: `{"kty":"OKP"}`,
		Selectors: map[string]string{"repo": "ebb"}, At: Epoch.Add(time.Second),
	}
}

// Lease returns a live lease of the task that lasts ten minutes.
func Lease(taskID string) broker.Lease {
	return broker.Lease{
		ID: newID("lse_"), TaskID: taskID, Sandbox: "sbx_" + taskID[4:], Owner: "ann@example.org", Provider: "orders",
		Scopes: scopes.MustParseSet("orders:eu/1:read"), Resource: "https://orders.test/", Binding: provider.Binding{JKT: "jkt"},
		Class: provider.ClassInstant, RequestID: "req_1", Rule: "policy0", Tool: "curl", Delivery: "egress", Txn: "txn-1",
		IssuedAt: Epoch.Add(time.Minute), ExpiresAt: Epoch.Add(11 * time.Minute), State: broker.LeaseLive,
	}
}

// Request returns a pending request of the task for one approver.
func Request(taskID string) broker.Request {
	return broker.Request{
		ID: newID("req_"), TaskID: taskID, Sandbox: "sbx_" + taskID[4:], Owner: "ann@example.org", Runner: "ci", Dedupe: newID("d"),
		Provider: "orders", Scopes: scopes.MustParseSet("orders:eu/1:write orders:eu/2:write"), Resource: "https://orders.test/", TTL: 600,
		Binding: provider.Binding{X5T: "x5t"}, Tool: "curl", Details: true, EvidenceEnd: Epoch.Add(time.Hour),
		Approval: policy.Approval{Groups: []string{"approvers", "owners"}, Quorum: 1, Rules: []policy.AskRule{{ID: "ask", Groups: []string{"approvers", "owners"}, Quorum: 1}}},
		Facts:    json.RawMessage(`{"b":1,"a":"é"}`), Digest: "0123abcd",
		Reason: agenttext.From("drop\x00 \xff table;\u202e--"), Asked: 1,
		CreatedAt: Epoch.Add(time.Minute), ExpiresAt: Epoch.Add(6 * time.Minute), State: broker.RequestPending,
	}
}

// Entry returns an entry as a caller drafts it.
func Entry(kind, taskID string) audit.Entry {
	return audit.Entry{At: Epoch, Kind: kind, Actor: "ci", TaskID: taskID, Data: json.RawMessage(`{"n":1}`)}
}

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

// run runs each test on an empty database of its own. of makes the fixture of the tests.
func run[T any](t *testing.T, open OpenStores, of func(*storeTest) T, tests map[string]func(T)) {
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			another := open(t)
			first := another()
			tests[name](of(&storeTest{T: t, another: another, Stores: first}))
		})
	}
}

// ofStore is the fixture of tests that need only storeTest.
func ofStore(t *storeTest) *storeTest { return t }

// storeTest is one test on one database, with the steps that the tests of every contract share.
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

func (t *storeTest) written(kind string) int {
	t.Helper()
	return len(t.entries(broker.EntryFilter{Kind: kind}))
}

// verify exports the audit log and verifies it.
func (t *storeTest) verify() audit.Report {
	t.Helper()
	return t.verifyWith(jose.KeySet{})
}

func (t *storeTest) verifyWith(keys jose.KeySet) audit.Report {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	cs, err := t.Store.Checkpoints(t.Context()) // before the entries: see Store.Entries
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range t.entries(broker.EntryFilter{}) {
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range cs {
		if err := enc.Encode(map[string]any{"checkpoint": c}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := audit.Verify(&out, keys)
	if err != nil {
		t.Fatal(err)
	}
	if r.Partial {
		t.Errorf("the export is partial: %+v", r)
	}
	return r
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
func (t *storeTest) winners(what string, errs []error, lost error) int {
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
