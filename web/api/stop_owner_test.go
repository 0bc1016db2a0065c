package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/memstore"
)

// ownerDigest returns how a path names an owner.
func ownerDigest(owner string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(owner))) }

func ownerPath(owner string) string { return "/v1/owners/" + ownerDigest(owner) + "/stop" }

// TestStopOwner stops the open and paused tasks of one owner, and no other's.
func TestStopOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	owner := spec().Owner
	live, paused := r.sandbox(t), r.sandbox(t)
	access := live.access(t, canRead)
	live.pend(t, mustAsk)
	r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+paused.task+"/pause", map[string]any{"reason": "lunch"})
	s := spec()
	s.Owner = "cy@example.com"
	other := r.sandboxFor(t, s)

	stop := func(who string, body map[string]any) *answer {
		named, _ := body["owner"].(string)
		return r.v1(t, who, http.MethodPost, ownerPath(named), body)
	}
	good := map[string]any{"owner": owner, "reason": "laptop stolen"}
	for _, who := range []string{brokertest.Runner, brokertest.Approver, brokertest.Auditor, brokertest.Viewer, brokertest.Server} {
		stop(who, good).problem(t, who, 403, "forbidden")
	}
	for name, body := range map[string]map[string]any{
		"no owner": {"reason": "x"}, "no reason": {"owner": owner}, "a control character": {"owner": owner + "\x1b", "reason": "x"},
		"a long owner": {"owner": strings.Repeat("x", 501), "reason": "x"}, "a hidden character": {"owner": owner, "reason": "x\u202e"}, "an unknown member": {"owner": owner, "reason": "x", "all": true},
	} {
		if a := stop(brokertest.Operator, body); a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, digest := range []string{ownerDigest("cy@example.com"), strings.ToUpper(ownerDigest(owner)), ownerDigest(owner)[1:], "x"} {
		if a := r.v1(t, brokertest.Operator, http.MethodPost, "/v1/owners/"+digest+"/stop", good); a.status != 400 {
			t.Errorf("%s: %d %s", digest, a.status, a.body)
		}
	}
	if !r.active(t, access) {
		t.Fatal("a refused call stopped the task")
	}

	a := stop(brokertest.Operator, good)
	tasks, _ := a.json["tasks"].([]any)
	if a.status != 200 || a.text("owner") != owner || len(tasks) != 2 || a.json["more"] != nil {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for i, want := range []map[string]any{
		{"task_id": live.task, "name": spec().Name, "stopped": true, "revoked": 1.0, "withdrawn_pending": 1.0, "pending_revocations": 0.0},
		{"task_id": paused.task, "name": spec().Name, "stopped": true, "revoked": 0.0, "withdrawn_pending": 0.0, "pending_revocations": 0.0},
	} {
		got, _ := tasks[i].(map[string]any)
		for name, v := range want {
			if got[name] != v {
				t.Errorf("task %d: %s is %v, want %v", i, name, got[name], v)
			}
		}
	}
	if r.active(t, access) {
		t.Error("a token of a stopped task is active")
	}
	other.access(t, canRead)
	for _, b := range []*box{live, paused} {
		entries, err := r.env.Broker.Entries(t.Context(), r.env.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: b.task, Kind: string(audit.TaskClosed)})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for e, err := range entries {
			if n++; err != nil || e.Actor != brokertest.Operator || !strings.Contains(string(e.Data), "laptop stolen") {
				t.Errorf("the audit entry is %+v, %v", e, err)
			}
		}
		if n != 1 {
			t.Errorf("%d audit entries for %s", n, b.task)
		}
	}
	if a := stop(brokertest.Operator, good); a.status != 200 || !strings.Contains(a.body, `"tasks":[]`) {
		t.Errorf("again: %d %s", a.status, a.body)
	}
}

// TestStopOwnerOfManyTasks: one call reads page after page.
func TestStopOwnerOfManyTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	good := map[string]any{"owner": spec().Owner, "reason": "laptop stolen"}
	const many = 201 // more than one page
	for range many {
		if _, _, err := r.env.Broker.OpenTask(t.Context(), r.env.Principals[brokertest.Runner], spec()); err != nil {
			t.Fatal(err)
		}
	}
	a := r.v1(t, brokertest.Operator, http.MethodPost, ownerPath(spec().Owner), good)
	tasks, _ := a.json["tasks"].([]any)
	if n := strings.Count(a.body, `"stopped":true`); a.status != 200 || len(tasks) != many || n != many || a.json["more"] != nil {
		t.Errorf("%d: %d tasks, %d stopped, more %v", a.status, len(tasks), n, a.json["more"])
	}
}

// oneFails is a live store that cannot record the end of one task.
type oneFails struct {
	broker.LiveStore
	task atomic.Pointer[string]
}

func (l *oneFails) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if bad := l.task.Load(); bad != nil && *bad == id {
		return broker.Counts{}, false, errStore
	}
	return l.LiveStore.SetState(ctx, id, s, at, keep)
}

// TestStopOwnerWithOneFailure: a task whose end cannot be recorded does not keep the others from
// ending, and the response names it.
//
//ebb:invariant I6
func TestStopOwnerWithOneFailure(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	live := &oneFails{LiveStore: memstore.New(memstore.Config{Now: func() time.Time { return start }})}
	r := newRig(t, options{broker: brokertest.Config{Start: start, LiveStore: live}})
	sandboxes := []*box{r.sandbox(t), r.sandbox(t), r.sandbox(t)}
	var tokens []string
	for _, b := range sandboxes {
		tokens = append(tokens, b.access(t, canRead))
	}
	live.task.Store(&sandboxes[1].task)
	a := r.v1(t, brokertest.Operator, http.MethodPost, ownerPath(spec().Owner), map[string]any{"owner": spec().Owner, "reason": "laptop stolen"})
	tasks, _ := a.json["tasks"].([]any)
	if a.status != 200 || len(tasks) != len(sandboxes) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for i, x := range tasks {
		x, _ := x.(map[string]any)
		if failed := x["task_id"] == sandboxes[1].task; x["stopped"] == failed || (x["error"] == nil) == failed {
			t.Errorf("task %d: %v", i, x)
		}
	}
	for i, token := range tokens {
		if r.active(t, token) {
			t.Errorf("the token of task %d is active", i)
		}
	}
}

// TestStopOwnerWithFailingStores: without the live store each task is reported
// with the reason, and its tokens are refused; without the database the tasks
// are unknown.
//
//ebb:invariant I6
func TestStopOwnerWithFailingStores(t *testing.T) {
	t.Parallel()
	r, f := faultyRig(t)
	b := r.sandbox(t)
	access := b.access(t, canRead)
	good := map[string]any{"owner": spec().Owner, "reason": "laptop stolen"}
	token, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	f.store.Store(true)
	r.v1With(t, token, key, http.MethodPost, ownerPath(spec().Owner), good).problem(t, "without the database", 503, "temporarily_unavailable")
	f.store.Store(false)
	f.liveStore.Store(true)
	a := r.v1With(t, token, key, http.MethodPost, ownerPath(spec().Owner), good)
	tasks, _ := a.json["tasks"].([]any)
	if a.status != 200 || len(tasks) != 1 || !strings.Contains(a.body, `"stopped":false`) || !strings.Contains(a.body, "the broker keeps trying") {
		t.Errorf("without the live store: %d %s", a.status, a.body)
	}
	f.liveStore.Store(false)
	if r.active(t, access) {
		t.Error("the token is active although its task was stopped")
	}
}
