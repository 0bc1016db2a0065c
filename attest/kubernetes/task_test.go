package kubernetes_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/kubetest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestRealTask runs ebb with a real cluster. A task that expects one pod accepts only
// that pod and one key, and ends with the pod.
func TestRealTask(t *testing.T) {
	t.Parallel()
	kubetest.Real(t) // before a broker is built for nothing
	b := realBed(t)
	uid, token := b.sandbox("tool-1", object{"nodeName": "node-1"})
	_, other := b.sandbox("tool-2", object{"nodeName": "node-1"})
	e := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"cluster": open(t, b.config())}})
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "cluster", Selectors: map[string]string{"namespace": b.ns, "pod_uid": uid, "owner_name": "s-tool-1"}}
	task, _, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec)
	if err != nil {
		t.Fatal(err)
	}
	s := &brokertest.Sandbox{Env: e, Key: brokertest.NewKey(t), Task: task}
	enrol := func(s *brokertest.Sandbox, token string) error {
		en, err := e.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Attestor: "cluster", Document: []byte(token)}, e.Prove(t, s.Key))
		if err == nil {
			s.TaskToken = en.Token.Reveal()
		}
		return err
	}
	thief := &brokertest.Sandbox{Env: e, Key: brokertest.NewKey(t), Task: task}
	if err := enrol(thief, other); broker.AsError(err).Kind != broker.InvalidEvidence {
		t.Errorf("another pod: %v", err)
	}
	if err := enrol(s, token); err != nil {
		t.Fatal(err)
	}
	if err := enrol(thief, token); err == nil {
		t.Error("the token served a second key")
	}
	if err := enrol(thief, b.Token(b.ns, "worker", audience, "tool-1", uid)); err == nil {
		t.Error("a second key has the task's pod")
	}
	if err := enrol(s, b.Token(b.ns, "worker", audience, "tool-1", uid)); err != nil {
		t.Errorf("the next token of the pod: %v", err)
	}
	cred, err := s.Ask(t, "orders:eu/42:read")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	b.DeletePod(b.ns, "tool-1", 0)
	for e.Active(t, cred.Token.Reveal()) {
		if time.Since(start) > 2*time.Minute {
			t.Fatal("the credential outlives its pod")
		}
		time.Sleep(5 * time.Millisecond) // waits for a real server
	}
	t.Logf("ebb saw the end of the pod, and its credential was dead after %s", time.Since(start).Round(time.Millisecond))
	// The live store is closed first, which is what kills; the database says so a write later.
	closed := func() bool {
		ts, err := e.Config.Store.Tasks(t.Context(), broker.TaskFilter{IDs: []string{task.ID}})
		if err != nil || len(ts) != 1 {
			t.Fatalf("the task is %+v, %v", ts, err)
		}
		task = ts[0]
		return task.State == broker.TaskClosed
	}
	for !closed() {
		if time.Since(start) > 2*time.Minute {
			t.Fatal("the credential is dead, and its task stays open")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if task.Cause != broker.CauseExited || !ended(task.Reason, "pod_deleted") {
		t.Errorf("the task is %+v", task)
	}
	if err := enrol(s, token); err == nil {
		t.Errorf("afterwards: %v", err)
	}
}
