package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// silentAttestor is an attestor that can stop evaluating evidence.
type silentAttestor struct {
	attest.Attestor
	off *atomic.Bool
}

func (a silentAttestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if a.off.Load() {
		return attest.Identity{}, errors.New("dial tcp 10.0.0.6:443: connection refused")
	}
	return a.Attestor.Attest(ctx, e)
}

// Acceptance check 28, of attestation: while the attestor is down, nothing of
// its sandboxes is approved on any page. Denying and stopping work.
//
//ebb:invariant I6 No request can be approved while the attestor of its sandbox is unavailable or no longer configured
func TestAttestorGone(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 3)
	var off atomic.Bool
	h.Config.Attestors["enroll"] = silentAttestor{h.Config.Attestors["enroll"], &off}
	b := h.as(brokertest.Approver)
	one, both := "/requests/"+rs[0].ID, "/batch?"+idsOf(rs[:2]).Encode()
	before, beforeBoth := b.get(one), b.get(both)
	off.Store(true)
	knock(t, h) // a single failure may be caused by the caller
	knock(t, h)
	for _, path := range []string{one, both} {
		b.get(path).off(t, "cannot check evidence at the moment", "10.0.0.6")
	}
	b.choose(before, rs[0].ID, "approve", nil).is(t, http.StatusServiceUnavailable)
	b.do(http.MethodPost, "/batch", b.multi(beforeBoth), nil).is(t, http.StatusServiceUnavailable)
	b.choose(b.get(one), rs[0].ID, "deny", no).is(t, http.StatusSeeOther)
	if h.state(rs[0]) != broker.RequestDenied || h.state(rs[1]) != broker.RequestPending || h.state(rs[2]) != broker.RequestPending {
		t.Error("the no was not taken, or something was granted")
	}
	// When it evaluates again, even with a refusal, or was not called for a
	// while, approving works again.
	off.Store(false)
	knock(t, h)
	b.get(both[:strings.Index(both, "?")]+"?"+idsOf(rs[1:]).Encode()).is(t, http.StatusOK, "Approve <span")
	off.Store(true)
	knock(t, h) // a single failure may be caused by the caller
	knock(t, h)
	h.Clock.Add(time.Minute)
	b.get("/batch?"+idsOf(rs[1:]).Encode()).is(t, http.StatusOK, "Approve <span")
	delete(h.Config.Attestors, "enroll")
	b.get("/requests/"+rs[1].ID).is(t, http.StatusOK, "Approving is off", "no longer configured")
	ops, path := h.as(brokertest.Operator), "/tasks/"+rs[1].TaskID
	ops.send(ops.get(path), path+"/stop", url.Values{"reason": {"nobody vouches for it"}}).is(t, http.StatusSeeOther)
}

// knock presents invalid evidence.
func knock(t *testing.T, h *fixture) {
	t.Helper()
	task, ticket, err := h.Broker.OpenTask(t.Context(), h.Principals[brokertest.Runner], brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal() + "x")}, h.Prove(t, brokertest.NewKey(t))); err == nil {
		t.Fatal("enrolled")
	}
}

// mutedStore is a store that accepts no writes.
type mutedStore struct {
	broker.Store
	off *atomic.Bool
}

func (j mutedStore) Append(ctx context.Context, r broker.Record) error {
	if j.off.Load() {
		return errors.New("cannot execute UPDATE in a read-only transaction")
	}
	return j.Store.Append(ctx, r)
}

func (j mutedStore) Writable(ctx context.Context) error {
	if j.off.Load() {
		return errors.New("cannot execute UPDATE in a read-only transaction")
	}
	return j.Store.Writable(ctx)
}

// Acceptance check 28, of the audit log: while it accepts no writes nothing is
// approved, and revoked credentials are refused at once.
//
//ebb:invariant I6 No request can be approved while the audit log cannot be written
func TestRecordGone(t *testing.T) {
	t.Parallel()
	var off atomic.Bool
	clock := time.Now().UTC().Truncate(time.Second)
	store := brokertest.OpenStore(t, t.TempDir()+"/ebb.db", func() time.Time { return clock })
	h := newFixture(t, brokertest.Config{Start: clock, Store: mutedStore{store, &off}, ApprovalStore: store})
	r, s := h.asks("orders:eu/1:write", "x", brokertest.Spec())
	tok, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	b := h.as(brokertest.Approver)
	before := b.get("/requests/" + r.ID)
	before.is(t, http.StatusOK, `value="approve"`)
	ops := h.as(brokertest.Operator)
	revoke := "/credentials/" + tok.LeaseID + "/revoke"
	credential := ops.get("/credentials/" + tok.LeaseID)
	off.Store(true)
	b.get("/requests/"+r.ID).off(t, "The audit log cannot be written", "read-only transaction")
	b.choose(before, r.ID, "approve", typedTarget).is(t, http.StatusServiceUnavailable)
	if h.again(r.ID).State != broker.RequestPending {
		t.Error("granted")
	}
	ops.send(credential, revoke, url.Values{"reason": {"leaked"}})
	if h.Active(t, tok.Token.Reveal()) {
		t.Error("a credential that was revoked is accepted while the record takes no writes")
	}
}
