package api_test

import (
	"encoding/json"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestExplainEvidence: only operators get an explanation, and explaining uses
// nothing up.
func TestExplainEvidence(t *testing.T) {
	t.Parallel()
	nonces, err := attest.NewNonces(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	att := &riddle{nonces: nonces}
	r := newRig(t, options{broker: brokertest.Config{Attestors: map[string]attest.Attestor{"riddle": att}}})
	att.now = r.env.Clock.Now
	jwk := func(s jose.Signer) map[string]any {
		k, err := jose.NewKey("", s.Public())
		if err != nil {
			t.Fatal(err)
		}
		text, err := jose.MarshalPublicJWK(k)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	mine, other := brokertest.NewKey(t), brokertest.NewKey(t)
	nonce, _ := nonces.Issue("riddle", r.env.Prove(t, mine).Key.JKT, r.env.Clock.Now())
	ask := func(who, name string, body map[string]any) *answer {
		return r.v1(t, who, "POST", "/v1/attestors/"+name+"/explain", body)
	}
	a := ask(brokertest.Operator, "riddle", map[string]any{"evidence": nonce + " x", "jwk": jwk(mine)})
	if a.status != 200 || a.text("verdict") != "accepted" || a.json["identity"] == nil {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = ask(brokertest.Operator, "riddle", map[string]any{"evidence": nonce + " x", "jwk": jwk(other)})
	if a.status != 200 || a.text("verdict") != "refused" || a.text("reason") != "nonce" || a.json["identity"] != nil {
		t.Errorf("another key: %d %s", a.status, a.body)
	}
	for _, who := range []string{brokertest.Runner, brokertest.Approver, brokertest.Auditor, brokertest.Server} {
		ask(who, "riddle", map[string]any{"evidence": "x"}).problem(t, who, 403, "forbidden")
	}
	ask(brokertest.Operator, "nobody", map[string]any{"evidence": "x"}).problem(t, "no such attestor", 404, "not_found")

	// Explaining a ticket does not use it up.
	task, ticket, err := r.env.Broker.OpenTask(t.Context(), r.env.Principals[brokertest.Runner], spec())
	if err != nil {
		t.Fatal(err)
	}
	ask(brokertest.Operator, "enroll", map[string]any{"evidence": ticket.Ticket.Reveal()}).problem(t, "a ticket", 400, "invalid_request")
	box := r.env.Enrol(t, task, ticket)

	// A task token is valid for its key and task only.
	a = ask(brokertest.Operator, "enroll", map[string]any{"evidence": box.TaskToken, "jwk": jwk(box.Key)})
	if shown, _ := a.json["task"].(map[string]any); a.status != 200 || a.text("verdict") != "accepted" || shown["accepted"] != true {
		t.Errorf("a task token: %d %s", a.status, a.body)
	}
	a = ask(brokertest.Operator, "enroll", map[string]any{"evidence": box.TaskToken, "jwk": jwk(other)})
	if a.text("verdict") != "refused" || a.text("reason") != "key_binding" {
		t.Errorf("a task token and another key: %d %s", a.status, a.body)
	}
	if _, err := r.env.Broker.CompleteTask(t.Context(), r.env.Principals[brokertest.Runner], task.ID, 0); err != nil {
		t.Fatal(err)
	}
	a = ask(brokertest.Operator, "enroll", map[string]any{"evidence": box.TaskToken, "jwk": jwk(box.Key)})
	if shown, _ := a.json["task"].(map[string]any); shown["accepted"] != false || shown["why"] != "the task has ended" {
		t.Errorf("after the end: %s", a.body)
	}

	if a := r.v1(t, brokertest.Auditor, "GET", "/v1/attestors", nil); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.v1(t, brokertest.Server, "GET", "/v1/attestors", nil).problem(t, "a resource server", 403, "forbidden")
}
