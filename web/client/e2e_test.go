package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/verify"
	"github.com/ebb-broker/ebb/web/wire"
)

// fixture is a whole ebb behind its real handlers, a resource server that accepts
// its tokens, and clients for all roles.
type fixture struct {
	t      *testing.T
	env    *brokertest.Env
	issuer string
	shop   *verify.Verifier
}

func newFixture(t *testing.T, nonces bool) *fixture {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{t: t, issuer: "http://" + l.Addr().String()}
	h.env = brokertest.New(t, brokertest.Config{Issuer: h.issuer, RealTime: true, Run: true, Words: provider.Words{Reversible: []string{"write"}}, Nonces: nonces, Limits: broker.Limits{PollInterval: time.Second}})
	mux, err := web.New(web.Config{PublicURL: h.issuer})
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Config{Broker: h.env.Broker, Mux: mux})
	if err != nil {
		t.Fatal(err)
	}
	a.Register()
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}
	srv.Start()
	t.Cleanup(srv.Close)
	h.shop, err = verify.New(verify.Config{
		Issuer: h.issuer, Resource: brokertest.Orders, ClientID: brokertest.Server, Key: h.env.Keys[brokertest.Server], Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		RequireScopes: func(r *http.Request) (scopes.Set, error) {
			action := "read"
			if r.Method != http.MethodGet {
				action = "write"
			}
			return scopes.ParseSet("orders:" + strings.Trim(r.URL.Path, "/") + ":" + action)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.follow(h.shop)
	return h
}

// follow runs a verifier until the test ends, and returns when it is ready.
func (h *fixture) follow(v *verify.Verifier) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = v.Run(ctx) }()
	h.t.Cleanup(func() { cancel(); <-done })
	for end := time.Now().Add(patience); v.Ready() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatal(v.Ready())
		}
	}
}

func (h *fixture) operator(id string) *client.Operator {
	h.t.Helper()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: h.issuer}, ClientID: id, Key: h.env.Keys[id]})
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

// visit uses a credential at the shop and returns the status.
func (h *fixture) visit(s *client.Sandbox, c client.Credential, method string) int {
	h.t.Helper()
	c.Resource = brokertest.Orders
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		h.shop.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })).ServeHTTP(rec, r)
		return rec.Result(), nil
	})
	req, err := http.NewRequestWithContext(h.t.Context(), method, brokertest.Orders+"eu/42", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := s.Transport(c, transport).RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// spec is the task of brokertest.Spec as a client sends it.
func spec() wire.TaskSpec {
	s := brokertest.Spec()
	return wire.TaskSpec{Name: s.Name, Kind: s.Kind, Owner: s.Owner, TTL: int64(s.TTL), Ticket: s.Ticket, Ceiling: s.Ceiling.String(), Expect: wire.Expect{Attestor: s.Expect.Attestor}}
}

// The whole request flow: open, enrol, get a read token, request a write,
// approve it narrowed, use both, complete; afterwards no token works.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	for _, nonces := range []bool{false, true} {
		h := newFixture(t, nonces)
		ctx := t.Context()
		runner, approver := h.operator(brokertest.Runner), h.operator(brokertest.Approver)
		task, ticket, err := runner.Tasks.Open(ctx, spec())
		if err != nil || ticket == nil {
			t.Fatalf("open: %v", err)
		}
		key, err := client.NewKey(jose.EdDSA)
		if err != nil {
			t.Fatal(err)
		}
		box, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: h.issuer}, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		who, err := box.Enrol(ctx, ticket.Ticket)
		if err != nil || who.TaskID != task.ID {
			t.Fatalf("enrol: %+v, %v", who, err)
		}
		if again, err := box.Enrol(ctx, ticket.Ticket); err != nil || again.ClientID != who.ClientID {
			t.Errorf("the same key asks again: %+v, %v", again, err)
		}
		other, err := client.NewKey(jose.EdDSA)
		if err != nil {
			t.Fatal(err)
		}
		thief, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: h.issuer}, Key: other})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := thief.Enrol(ctx, ticket.Ticket); err == nil {
			t.Error("a ticket was good for two keys")
		}
		read, err := box.Token(ctx, client.TokenRequest{Scope: "orders:eu/42:read", Resource: brokertest.Orders, TTL: time.Minute})
		if err != nil || read.LeaseID == "" {
			t.Fatalf("read: %v", err)
		}
		write := h.escalate(box, approver, task.ID)
		for name, tc := range map[string]struct {
			cred   client.Credential
			method string
			want   int
		}{"read": {read, "GET", 204}, "write": {write, "POST", 204}, "write with the read token": {read, "POST", 403}} {
			if got := h.visit(box, tc.cred, tc.method); got != tc.want {
				t.Errorf("nonces %v: %s: %d, want %d", nonces, name, got, tc.want)
			}
		}
		if err := box.Revoke(ctx, read.Token); err != nil {
			t.Errorf("revoke: %v", err)
		}
		h.refused(box, read, "GET")
		out, err := runner.Tasks.Complete(ctx, task.ID)
		if err != nil || out.Already || out.Revoked != 1 {
			t.Errorf("complete: %+v, %v", out, err)
		}
		h.refused(box, write, "POST")
		if _, err := box.Token(ctx, client.TokenRequest{Scope: "orders:eu/42:read"}); err == nil {
			t.Error("a completed task minted")
		}
		if out, err = runner.Tasks.Complete(ctx, task.ID); err != nil || !out.Already {
			t.Errorf("complete again: %+v, %v", out.Already, err)
		}
		h.record(task.ID)
	}
}

// escalate asks for a write, lets the approver narrow it, and waits for it.
func (h *fixture) escalate(box *client.Sandbox, approver *client.Operator, taskID string) client.Credential {
	h.t.Helper()
	ctx := h.t.Context()
	asked := "orders:eu/42:write orders:eu/43:write"
	if _, err := box.Token(ctx, client.TokenRequest{Scope: asked}); !client.IsKind(err, wire.KindAskRequired) {
		h.t.Errorf("without waiting: %v", err)
	}
	var pending client.Pending
	got := make(chan error, 1)
	go func() {
		list, err := approver.Requests.List(ctx, client.RequestFilter{TaskID: taskID, State: wire.RequestPending})
		for err == nil && len(list.Items) == 0 {
			time.Sleep(10 * time.Millisecond)
			list, err = approver.Requests.List(ctx, client.RequestFilter{TaskID: taskID, State: wire.RequestPending})
		}
		if err != nil {
			got <- err
			return
		}
		r, err := approver.Requests.Get(ctx, list.Items[0].ID)
		if err != nil {
			got <- err
			return
		}
		if _, err := approver.Requests.Approve(ctx, r.ID, wire.ApprovalBody{Digest: strings.Repeat("0", 64)}); !client.IsKind(err, wire.KindConflict) {
			h.t.Errorf("approving other facts: %v", err)
		}
		_, err = approver.Requests.Approve(ctx, r.ID, wire.ApprovalBody{Digest: r.Digest, Scopes: "orders:eu/42:write", TTL: 60})
		got <- err
	}()
	write, err := box.Token(ctx, client.TokenRequest{Scope: asked, Reason: "must fix it", Wait: true, Pending: func(p client.Pending) { pending = p }})
	if err := <-got; err != nil {
		h.t.Fatalf("approve: %v", err)
	}
	if err != nil || write.Scope != "orders:eu/42:write" || pending.Interval != time.Second || pending.ExpiresIn <= 0 || !strings.HasPrefix(pending.RequestID, "req_") || pending.Page != "" {
		h.t.Fatalf("write: %v %v, told %+v", write.Scope, err, pending)
	}
	return write
}

// refused waits for the feed, which takes less than 1 s, or more on a busy
// machine. The credential itself lives longer than this waits.
func (h *fixture) refused(box *client.Sandbox, c client.Credential, method string) {
	h.t.Helper()
	for end := time.Now().Add(30 * time.Second); h.visit(box, c, method) != 401; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Errorf("%s: still accepted half a minute after its end", method)
			return
		}
	}
}

// record verifies the export of the test and reads the rest of the API once.
func (h *fixture) record(taskID string) {
	h.t.Helper()
	ctx := h.t.Context()
	ops, auditor := h.operator(brokertest.Operator), h.operator(brokertest.Auditor)
	var export strings.Builder
	if err := auditor.Audit.Export(ctx, client.EntryFilter{}, &export); err != nil {
		h.t.Fatal(err)
	}
	set, err := jose.ParseJWKS(h.env.Broker.JWKS())
	if err != nil {
		h.t.Fatal(err)
	}
	if report, err := audit.Verify(strings.NewReader(export.String()), set); err != nil || report.Entries == 0 {
		h.t.Errorf("export: %+v, %v", report, err)
	}
	var kinds []string
	for e, err := range auditor.Audit.Entries(ctx, client.EntryFilter{TaskID: taskID, Desc: true}) {
		if err != nil {
			h.t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
	}
	for _, want := range []string{audit.TaskClosed, audit.LeaseIssued, audit.RequestApproved, audit.TaskOpened} {
		if !slices.Contains(kinds, want) {
			h.t.Errorf("the record lacks %s: %v", want, kinds)
		}
	}
	leases, err := auditor.Credentials.List(ctx, client.CredentialFilter{TaskID: taskID})
	if err != nil || len(leases.Items) != 2 || leases.Items[0].State != wire.LeaseRevoked {
		h.t.Errorf("leases: %+v, %v", leases, err)
	}
	if l, err := auditor.Credentials.Get(ctx, leases.Items[0].ID); err != nil || l.TaskID != taskID {
		h.t.Errorf("lease: %v", err)
	}
	if _, err := ops.Credentials.Revoke(ctx, leases.Items[0].ID, "again"); err != nil {
		h.t.Errorf("revoking a dead lease: %v", err)
	}
	for name, call := range map[string]func() error{
		"tasks":       func() error { _, err := ops.Tasks.List(ctx, client.TaskFilter{State: wire.TaskClosed}); return err },
		"task":        func() error { _, err := ops.Tasks.Get(ctx, taskID); return err },
		"checkpoints": func() error { _, err := auditor.Audit.Checkpoints(ctx); return err },
		"policy":      func() error { _, err := ops.Policy.Get(ctx); return err },
		"feed":        func() error { _, err := ops.Credentials.Revocations(ctx, "", 0); return err },
		"explain": func() error {
			x, err := ops.Policy.Explain(ctx, wire.PolicyQuery{
				Sandbox: wire.PolicySandbox{ID: "sbx_1", Attestor: "enroll"}, Task: wire.PolicyTask{ID: "tsk_1"},
				Scopes: "orders:eu/42:write", TTL: 60, Binding: "dpop", Delivery: wire.DeliveryToken,
			})
			if err == nil && x.Decision.Effect != wire.EffectAsk {
				err = errors.New("not ask")
			}
			return err
		},
	} {
		if err := call(); err != nil {
			h.t.Errorf("%s: %v", name, err)
		}
	}
}

// The other calls on a task, against the real handlers.
func TestEndToEndTaskVerbs(t *testing.T) {
	t.Parallel()
	h := newFixture(t, false)
	ctx := t.Context()
	runner, ops, approver := h.operator(brokertest.Runner), h.operator(brokertest.Operator), h.operator(brokertest.Approver)
	quiet := spec()
	quiet.Ticket, quiet.Heartbeat = false, 60
	task, ticket, err := runner.Tasks.Open(ctx, quiet)
	if err != nil || ticket != nil {
		t.Fatalf("open: %v %v", ticket, err)
	}
	fresh, err := runner.Tasks.NewTicket(ctx, task.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := newKey(t)
	box, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: h.issuer}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	who, err := box.Enrol(ctx, fresh.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Tasks.Heartbeat(ctx, task.ID); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	read := client.TokenRequest{Scope: "orders:eu/42:read"}
	if got, err := runner.Tasks.Pause(ctx, task.ID, "lunch"); err != nil || got.State != wire.TaskPaused {
		t.Errorf("pause: %v %v", got.State, err)
	}
	if _, err := box.Token(ctx, read); !client.IsKind(err, wire.KindDenied) {
		t.Errorf("paused: %v", err)
	}
	if got, err := runner.Tasks.Resume(ctx, task.ID); err != nil || got.State != wire.TaskOpen {
		t.Errorf("resume: %v %v", got.State, err)
	}
	if _, err := box.Token(ctx, read); err != nil {
		t.Errorf("resumed: %v", err)
	}
	// After enrolment the key alone is enough.
	alone, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: h.issuer}, Key: key, ClientID: who.ClientID})
	if err != nil {
		t.Fatal(err)
	}
	detailed, err := alone.Token(ctx, client.TokenRequest{Details: []wire.Detail{{Provider: "orders", Identifier: "eu/42", Actions: []string{"read"}}}})
	if err != nil || len(detailed.Details) != 1 {
		t.Errorf("with the key alone: %+v, %v", detailed.Details, err)
	}
	if err := alone.Revoke(ctx, detailed.Token); err != nil {
		t.Errorf("revoke with the key alone: %v", err)
	}
	// A denied request returns the reason as data.
	go func() {
		for ctx.Err() == nil {
			list, err := approver.Requests.List(ctx, client.RequestFilter{TaskID: task.ID, State: wire.RequestPending})
			if err != nil || len(list.Items) > 0 {
				if err == nil {
					_, err = approver.Requests.Deny(ctx, list.Items[0].ID, wire.DenialBody{Code: wire.DenyTooBroad, Note: "read is enough"})
				}
				if err != nil {
					t.Errorf("deny: %v", err)
				}
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err = box.Token(ctx, client.TokenRequest{Scope: "orders:eu/42:write", Wait: true})
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Kind != wire.KindDenied || p.Advice == nil || p.Advice.Code != wire.DenyTooBroad {
		t.Errorf("denied: %v", err)
	}
	// Neither another runner nor the approver may do it.
	for name, o := range map[string]*client.Operator{"another runner": h.operator(brokertest.Runner2), "approver": approver} {
		if _, err := o.Tasks.Complete(ctx, task.ID); err == nil {
			t.Errorf("%s completed the task", name)
		}
	}
	if out, err := ops.Tasks.Stop(ctx, task.ID, "enough"); err != nil || out.Task.Cause != wire.CauseStopped {
		t.Errorf("stop: %v %v", out.Task.Cause, err)
	}
	stranger, _ := newKey(t)
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: h.issuer}, ClientID: brokertest.Operator, Key: stranger})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Tasks.Get(ctx, task.ID); !client.IsKind(err, wire.KindUnauthenticated) {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := box.Enrol(ctx, secret.New("ebb_tkt_guess")); err == nil {
		t.Error("a guessed ticket was good")
	}
}
