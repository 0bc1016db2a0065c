package core_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// older makes a request in the form of a version of ebb without risk assessment.
func older(t *testing.T, e *brokertest.Env, s *brokertest.Sandbox, id string) broker.Request {
	t.Helper()
	r, _ := sheetOf(t, e, pending(t, s, "orders:eu/1:write").RequestID)
	if _, err := e.Config.ApprovalStore.Settle(t.Context(), r.ID, broker.RequestPending, broker.RequestWithdrawn, e.Clock.Now(), broker.Record{}); err != nil {
		t.Fatal(err)
	}
	var facts map[string]json.RawMessage
	if err := json.Unmarshal(r.Facts, &facts); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"effect", "undoable", "risk", "as_asked", "ends_by"} {
		delete(facts, name)
	}
	facts["request_id"], _ = json.Marshal(id)
	raw, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	if r.Facts, err = jcs.Transform(raw); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(r.Facts)
	r.ID, r.Digest, r.Dedupe, r.State = id, hex.EncodeToString(sum[:]), id, broker.RequestPending
	out, made, err := e.Config.ApprovalStore.Create(t.Context(), r, broker.Room{}, audit.Entry{At: r.CreatedAt, Kind: audit.RequestCreated, Actor: s.Task.ID, TaskID: r.TaskID, RequestID: id})
	if err != nil || !made {
		t.Fatal(made, err)
	}
	return out
}

// An upgrade loses no request: pending ones can be read and denied, and an approval requires a new
// request.
func TestRequestsOfOlderVersions(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	ann := e.Principals[brokertest.Approver]
	r := older(t, e, s, "req_00000000000000000000000000000001")
	f, err := r.Sheet()
	if err != nil || f.Risk != nil || f.Then != nil || f.Understood() || f.TaskID != s.Task.ID {
		t.Fatalf("%+v, %v", f, err)
	}
	_, err = e.Broker.Decide(t.Context(), ann, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Conflict)
	if got, err := e.Broker.Request(t.Context(), ann, r.ID); err != nil || got.State != broker.RequestWithdrawn {
		t.Errorf("%v, %v", got.State, err)
	}
	r = older(t, e, s, "req_00000000000000000000000000000002")
	if out, err := e.Broker.Decide(t.Context(), ann, r.ID, broker.Verdict{Code: broker.NotNeeded}); err != nil || out.State != broker.RequestDenied {
		t.Errorf("%v, %v", out.State, err)
	}
}
