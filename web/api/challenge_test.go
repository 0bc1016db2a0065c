package api_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// riddle is an attestor whose evidence is the nonce of its challenge and a name.
type riddle struct {
	nonces *attest.Nonces
	now    func() time.Time
}

func (r riddle) Challenge(_ context.Context, e attest.Evidence) (attest.Challenge, error) {
	if bytes.Contains(e.Document, []byte("bad")) {
		return attest.Challenge{}, attest.Reject(attest.ReasonMalformed, "the key cannot be read", nil)
	}
	nonce, until := r.nonces.Issue("riddle", e.Key.JKT, r.now())
	return attest.Challenge{Nonce: nonce, Document: []byte(`{"more":1}`), ExpiresAt: until}, nil
}

func (r riddle) Attest(_ context.Context, e attest.Evidence) (attest.Identity, error) {
	nonce, name, _ := strings.Cut(string(e.Document), " ")
	until, err := r.nonces.Check(nonce, "riddle", e.Key.JKT, r.now())
	if err != nil {
		return attest.Identity{}, err
	}
	return attest.Identity{Attestor: "riddle", Subject: name, Class: attest.ClassHardware, Selectors: map[string]string{"name": name},
		ReplayID: nonce, ReplayUntil: until, Key: e.Key.JKT}, nil
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	nonces, err := attest.NewNonces(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	att := &riddle{nonces: nonces}
	r := newRig(t, options{broker: brokertest.Config{Attestors: map[string]attest.Attestor{"riddle": att}}})
	att.now = r.env.Clock.Now
	spec := spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "riddle", Selectors: map[string]string{"name": "x"}}
	open := func() string {
		task, _, err := r.env.Broker.OpenTask(t.Context(), r.env.Principals[brokertest.Runner], spec)
		if err != nil {
			t.Fatal(err)
		}
		return task.ID
	}
	task, key := open(), brokertest.NewKey(t)
	ask := func(body map[string]any, prove bool) *answer {
		req := r.request(http.MethodPost, "/v1/challenge", encode(t, body))
		req.Header.Set("Content-Type", "application/json")
		if prove {
			req.Header.Set("DPoP", r.proof(t, key, http.MethodPost, "/v1/challenge", ""))
		}
		return r.do(t, req)
	}
	a := ask(map[string]any{"task_id": task}, true)
	if a.status != 200 || len(a.text("nonce")) != 75 || a.json["document"] == nil {
		t.Fatalf("%d %s", a.status, a.body)
	}
	evidence := map[string]any{"task_id": task, "attestor": "riddle", "evidence": a.text("nonce") + " x"}
	r.enroll(t, brokertest.NewKey(t), evidence).problem(t, "another key answers", 403, "invalid_evidence")
	if a := r.enroll(t, key, evidence); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for name, c := range map[string]struct {
		body   map[string]any
		prove  bool
		status int
		kind   string
	}{
		"nobody named":     {map[string]any{}, true, 400, "invalid_request"},
		"no such task":     {map[string]any{"task_id": "tsk_" + strings.Repeat("0", 32)}, true, 403, "invalid_evidence"},
		"no such attestor": {map[string]any{"attestor": "other"}, true, 403, "invalid_evidence"},
		"asks none":        {map[string]any{"attestor": "enroll"}, true, 403, "invalid_evidence"},
		"no proof":         {map[string]any{"attestor": "riddle"}, false, 401, "invalid_dpop_proof"},
		"refused":          {map[string]any{"attestor": "riddle", "evidence": "bad"}, true, 403, "invalid_evidence"},
		"unknown member":   {map[string]any{"attestor": "riddle", "x": 1}, true, 400, "invalid_request"},
	} {
		ask(c.body, c.prove).problem(t, name, c.status, c.kind)
	}
	// An old challenge, and one for another task by the same key.
	a = ask(map[string]any{"attestor": "riddle"}, true)
	other := map[string]any{"task_id": open(), "attestor": "riddle", "evidence": a.text("nonce") + " x"}
	r.env.Clock.Add(attest.NonceLife)
	r.enroll(t, key, other).problem(t, "too late", 403, "invalid_evidence")
}
