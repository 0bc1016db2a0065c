package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

func ok(v any) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) { answer(w, 200, v) }
}

func TestOperatorToken(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f, key := newFake(t, "ci", func() time.Time { return now })
	f.script = ok(wire.Task{ID: "tsk_1"})
	f.kid = "my-key"
	o := f.operator(t, key)
	get := func() {
		t.Helper()
		if task, err := o.Tasks.Get(t.Context(), "tsk_1"); err != nil || task.ID != "tsk_1" {
			t.Fatalf("Task = %v, %v", task.ID, err)
		}
	}
	get()
	get()
	if f.tokens != 1 {
		t.Errorf("%d tokens for two calls, want 1", f.tokens)
	}
	form := f.forms[0]
	if form.Get("grant_type") != "client_credentials" || form.Get("resource") != issuer+"/v1" {
		t.Errorf("form %v", form)
	}
	now = now.Add(569 * time.Second)
	get()
	if f.tokens != 1 {
		t.Error("renewed long before it expired")
	}
	now = now.Add(2 * time.Second) // 29 s are left of 600
	get()
	if f.tokens != 2 {
		t.Error("not renewed shortly before it expired")
	}
}

// One fetch serves all waiting callers, and a caller whose context ends does
// not wait.
func TestOperatorTokenShared(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	f.script = ok(wire.Task{})
	o := f.operator(t, key)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := o.Tasks.Get(t.Context(), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if f.tokens != 1 {
		t.Errorf("%d tokens, want 1", f.tokens)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Tasks.Get(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
}

// A45, A47: a required nonce is used at once, and cached.
func TestOperatorNonce(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	f.script = ok(wire.Task{})
	f.nonce = "nonce-1"
	o := f.operator(t, key)
	for range 3 {
		if _, err := o.Tasks.Get(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if f.asked != 2 { // once at the token endpoint, once at /v1
		t.Errorf("asked for a nonce %d times, want 2", f.asked)
	}
	f.nonce = "nonce-2"
	if _, err := o.Tasks.Get(t.Context(), "x"); err != nil || f.asked != 3 {
		t.Errorf("after a new nonce: %v, asked %d times", err, f.asked)
	}
}

// A server that always requires another nonce does not cause a loop.
func TestOperatorNonceForEver(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("DPoP-Nonce", fmt.Sprint("n", n.Add(1)))
		answer(w, 400, map[string]any{"error": "use_dpop_nonce"})
	}))
	defer srv.Close()
	key, _ := newKey(t)
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: srv.URL}, ClientID: "ci", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Tasks.Get(t.Context(), "x"); !client.IsKind(err, wire.KindUseNonce) || n.Load() != 2 {
		t.Errorf("%v after %d calls, want use_dpop_nonce after 2", err, n.Load())
	}
}

func TestOperatorExpiredToken(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	f.script = ok(wire.Task{})
	f.revoked["token-1"] = true
	o := f.operator(t, key)
	if _, err := o.Tasks.Get(t.Context(), "x"); err != nil || f.tokens != 2 {
		t.Errorf("%v after %d tokens, want success with the second", err, f.tokens)
	}
	f.revoked["token-2"], f.revoked["token-3"] = true, true
	if _, err := o.Tasks.Get(t.Context(), "x"); !client.IsKind(err, "invalid_token") || f.tokens != 3 {
		t.Errorf("%v after %d tokens, want invalid_token after 3", err, f.tokens)
	}
}

// URL is the address to connect to; signed data contains the issuer.
func TestOperatorBehindForward(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	f.script = ok(wire.Task{ID: "tsk_1"})
	srv := httptest.NewServer(f)
	defer srv.Close()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: issuer + "/", URL: srv.URL}, ClientID: "ci", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Tasks.Get(t.Context(), "tsk_1"); err != nil {
		t.Fatal(err)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	set := "orders:eu/42:read"
	type op = *client.Operator
	for _, tc := range []struct {
		name string
		do   func(context.Context, op) error
		want string
	}{
		{"Tasks.Open", func(ctx context.Context, o op) error {
			_, _, err := o.Tasks.Open(ctx, wire.TaskSpec{Name: "n", Kind: "k", Owner: "o", TTL: 60, Ceiling: set, Expect: wire.Expect{Attestor: "enroll"}, Ticket: true})
			return err
		}, `POST /v1/tasks {"name":"n","kind":"k","owner":"o","ttl_seconds":60,"ceiling":"orders:eu/42:read","sandbox_expected":{"attestor":"enroll"},"ticket":true}`},
		{"Tasks.List", func(ctx context.Context, o op) error {
			_, err := o.Tasks.List(ctx, client.TaskFilter{State: "open", Open: true, Owner: "a b", Runner: "r", Kind: "k", Page: client.Page{After: "tsk_0", Limit: 5, Desc: true}})
			return err
		}, `GET /v1/tasks?after=tsk_0&kind=k&limit=5&open=true&order=desc&owner=a+b&runner=r&state=open`},
		{"Tasks.List, everything", func(ctx context.Context, o op) error { _, err := o.Tasks.List(ctx, client.TaskFilter{}); return err }, `GET /v1/tasks`},
		{"Tasks.Get", func(ctx context.Context, o op) error { _, err := o.Tasks.Get(ctx, "tsk_1"); return err }, `GET /v1/tasks/tsk_1`},
		{"hostile id", func(ctx context.Context, o op) error { _, err := o.Tasks.Get(ctx, "../x?y#z/"); return err }, `GET /v1/tasks/..%2Fx%3Fy%23z%2F`},
		{"Tasks.Heartbeat", func(ctx context.Context, o op) error { _, err := o.Tasks.Heartbeat(ctx, "t"); return err }, `POST /v1/tasks/t/heartbeat`},
		{"Endpoints.Open", func(ctx context.Context, o op) error {
			_, err := o.Endpoints.Open(ctx, "t", wire.EgressEndpointSpec{Tool: "git"})
			return err
		}, `POST /v1/tasks/t/egress-endpoints {"tool":"git"}`},
		{"Endpoints.Register", func(ctx context.Context, o op) error {
			_, err := o.Endpoints.Register(ctx, wire.EgressEndpoint{ID: "../b", TaskID: "t"}, 7)
			return err
		}, `POST /v1/tasks/t/egress-endpoints/..%2Fb/register {"network_namespace":7}`},
		{"Endpoints.Close", func(ctx context.Context, o op) error {
			_, err := o.Endpoints.Close(ctx, wire.EgressEndpoint{ID: "egr_1", TaskID: "t"})
			return err
		}, `POST /v1/tasks/t/egress-endpoints/egr_1/close`},
		{"Taint", func(ctx context.Context, o op) error { _, err := o.Tasks.Taint(ctx, "t", "web"); return err }, `POST /v1/tasks/t/taint {"sources":["web"]}`},
		{"Pause", func(ctx context.Context, o op) error { _, err := o.Tasks.Pause(ctx, "t", "why"); return err }, `POST /v1/tasks/t/pause {"reason":"why"}`},
		{"Resume", func(ctx context.Context, o op) error { _, err := o.Tasks.Resume(ctx, "t"); return err }, `POST /v1/tasks/t/resume`},
		{"Complete", func(ctx context.Context, o op) error { _, err := o.Tasks.Complete(ctx, "t"); return err }, `POST /v1/tasks/t/complete`},
		{"CompleteWithin", func(ctx context.Context, o op) error {
			_, err := o.Tasks.CompleteWithin(ctx, "t", 10*time.Second)
			return err
		}, `POST /v1/tasks/t/complete?wait_seconds=10`},
		{"Stop", func(ctx context.Context, o op) error { _, err := o.Tasks.Stop(ctx, "t", "bad"); return err }, `POST /v1/tasks/t/stop {"reason":"bad"}`},
		{"Requests.List", func(ctx context.Context, o op) error {
			_, err := o.Requests.List(ctx, client.RequestFilter{TaskID: "t", Owner: "o", State: "pending", Group: "g", Since: at})
			return err
		}, `GET /v1/requests?group=g&owner=o&since=2026-11-20T12%3A00%3A00Z&state=pending&task_id=t`},
		{"Requests.Get", func(ctx context.Context, o op) error { _, err := o.Requests.Get(ctx, "r"); return err }, `GET /v1/requests/r`},
		{"Approve", func(ctx context.Context, o op) error {
			_, err := o.Requests.Approve(ctx, "r", wire.ApprovalBody{Digest: "d"})
			return err
		}, `POST /v1/requests/r/approve {"digest":"d"}`},
		{"Approve narrower", func(ctx context.Context, o op) error {
			_, err := o.Requests.Approve(ctx, "r", wire.ApprovalBody{Digest: "d", Scopes: set, TTL: 60, Note: "n"})
			return err
		}, `POST /v1/requests/r/approve {"digest":"d","scope":"orders:eu/42:read","ttl_seconds":60,"note":"n"}`},
		{"Deny", func(ctx context.Context, o op) error {
			_, err := o.Requests.Deny(ctx, "r", wire.DenialBody{Code: wire.DenyTooBroad, Note: "n"})
			return err
		}, `POST /v1/requests/r/deny {"code":"too_broad","note":"n"}`},
		{"Credentials.List", func(ctx context.Context, o op) error {
			_, err := o.Credentials.List(ctx, client.CredentialFilter{TaskID: "t", Owner: "o", Sandbox: "s", Provider: "p", State: "live", From: at, To: at})
			return err
		}, `GET /v1/leases?from=2026-11-20T12%3A00%3A00Z&owner=o&provider=p&sandbox=s&state=live&task_id=t&to=2026-11-20T12%3A00%3A00Z`},
		{"Credentials.Get", func(ctx context.Context, o op) error { _, err := o.Credentials.Get(ctx, "l"); return err }, `GET /v1/leases/l`},
		{"Usage", func(ctx context.Context, o op) error {
			_, err := o.Credentials.Usage(ctx, at, wire.UsageByOwner, 7)
			return err
		}, `GET /v1/usage?by=owner&from=2026-11-20T12%3A00%3A00Z&limit=7`},
		{"Transcripts.List", func(ctx context.Context, o op) error {
			_, err := o.Transcripts.List(ctx, client.TranscriptFilter{TaskID: "t", LeaseID: "l", After: "a", Limit: 7})
			return err
		}, `GET /v1/transcripts?after=a&lease_id=l&limit=7&task_id=t`},
		{"Transcripts.Get", func(ctx context.Context, o op) error { _, err := o.Transcripts.Get(ctx, "a/b"); return err }, `GET /v1/transcripts/a%2Fb`},
		{"Providers.SelfTest", func(ctx context.Context, o op) error {
			_, err := o.Providers.SelfTest(ctx, "a/b", wire.SelfTestSpec{Scopes: set, TTL: 90})
			return err
		}, `POST /v1/providers/a%2Fb/check {"scope":"orders:eu/42:read","ttl_seconds":90}`},
		{"Providers.SelfTest, set-up alone", func(ctx context.Context, o op) error {
			_, err := o.Providers.SelfTest(ctx, "p", wire.SelfTestSpec{})
			return err
		}, `POST /v1/providers/p/check {}`},
		{"BreakGlass.List", func(ctx context.Context, o op) error {
			_, err := o.BreakGlass.List(ctx, client.BreakGlassFilter{Person: "ann", Unreviewed: true, After: "brk_1", Limit: 2})
			return err
		}, `GET /v1/break-glass?after=brk_1&limit=2&order=desc&person=ann&state=unreviewed`},
		{"Secrets.List", func(ctx context.Context, o op) error { _, err := o.Secrets.List(ctx); return err }, `GET /v1/secrets`},
		{"Secrets.Put", func(ctx context.Context, o op) error {
			_, err := o.Secrets.Put(ctx, "a", secret.New("v"))
			return err
		}, `POST /v1/secrets {"name":"a","value":"v"}`},
		{"Secrets.Remove", func(ctx context.Context, o op) error { _, err := o.Secrets.Remove(ctx, "a/b"); return err }, `POST /v1/secrets/a%2Fb/remove`},
		{"Credentials.Revoke", func(ctx context.Context, o op) error { _, err := o.Credentials.Revoke(ctx, "l", "leaked"); return err }, `POST /v1/leases/l/revoke {"reason":"leaked"}`},
		{"Checkpoints", func(ctx context.Context, o op) error { _, err := o.Audit.Checkpoints(ctx); return err }, `GET /v1/audit/checkpoints`},
		{"Explain", func(ctx context.Context, o op) error {
			_, err := o.Policy.Explain(ctx, wire.PolicyQuery{Scopes: set})
			return err
		},
			`POST /v1/policy/explain {"query":{"sandbox":{"id":"","attestor":"","evidence":"","subject":""},"task":{"id":"","kind":"","owner":"","age_seconds":0},"scope":"orders:eu/42:read","ttl_seconds":0,"binding":"","delivery":"","record":{"denials":0,"violations":0}}}`},
		{"Policy.Get", func(ctx context.Context, o op) error { _, err := o.Policy.Get(ctx); return err }, `GET /v1/policy`},
		{"Revocations", func(ctx context.Context, o op) error {
			_, err := o.Credentials.Revocations(ctx, "c 1", 25*time.Second)
			return err
		}, `GET /v1/revocations?cursor=c+1&wait_seconds=25`},
	} {
		f, key := newFake(t, "ci", time.Now)
		f.script = ok(map[string]any{})
		if err := tc.do(t.Context(), f.operator(t, key)); err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		got := f.calls[0]
		gotHead, gotBody, _ := strings.Cut(got, " {")
		wantHead, wantBody, _ := strings.Cut(tc.want, " {")
		if gotHead != wantHead || !sameJSON([]byte("{"+gotBody), []byte("{"+wantBody)) {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// Half a response is not a result of a self-test.
func TestSelfTestCut(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	o := f.operator(t, key)
	whole := `{"provider":"p","kind":"k","ok":true,"steps":[{"step":"setup","ok":true,"notice":false,"what":"Fine.","took_ms":1}]}`
	for _, body := range []string{whole[:40], "", "null garbage"} {
		f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
			_, _ = io.WriteString(w, body)
		}
		if got, err := o.Providers.SelfTest(t.Context(), "p", wire.SelfTestSpec{}); err == nil || got.OK {
			t.Errorf("%q: %+v %v", body, got, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	o := f.operator(t, key)
	f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		answer(w, 201, map[string]any{"task": map[string]any{"id": "tsk_1"}, "ticket": "ebb_tkt_x", "ticket_expires_at": "2026-11-20T12:00:00Z", "later_member": 1})
	}
	task, ticket, err := o.Tasks.Open(t.Context(), wire.TaskSpec{})
	if err != nil || task.ID != "tsk_1" || ticket == nil || ticket.Ticket.Reveal() != "ebb_tkt_x" || ticket.ExpiresAt.IsZero() {
		t.Errorf("Tasks.Open = %v %v %v", task.ID, ticket, err)
	}
	if s := fmt.Sprintf("%v %+v", ticket, *ticket); strings.Contains(s, "ebb_tkt") {
		t.Errorf("a ticket prints itself: %s", s)
	}
	f.script = ok(map[string]any{"items": []any{map[string]any{"id": "lse_1"}}, "next": "lse_1"})
	if list, err := o.Credentials.List(t.Context(), client.CredentialFilter{}); err != nil || len(list.Items) != 1 || list.Next != "lse_1" {
		t.Errorf("Credentials.List = %v, %v", list, err)
	}
	f.script = ok(map[string]any{"events": []any{map[string]any{"task_id": "tsk_1", "at": "2026-11-20T12:00:00Z", "until": "2026-11-20T13:00:00Z"}}, "cursor": "c", "max_age_seconds": 10})
	if feed, err := o.Credentials.Revocations(t.Context(), "", 0); err != nil || feed.Events[0].TaskID != "tsk_1" || feed.Cursor != "c" || feed.MaxAge != 10 {
		t.Errorf("Credentials.Revocations = %v, %v", feed, err)
	}
	f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(200) }
	if _, err := o.Tasks.NewTicket(t.Context(), "t", 0); err == nil {
		t.Error("an empty answer passed for a ticket")
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	o := f.operator(t, key)
	entries := make([]audit.Entry, 7)
	chain, err := audit.NewChain("w1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		entries[i] = audit.Entry{At: time.UnixMilli(1_800_000_000_000 + int64(i)).UTC(), Kind: "lease.issued", Actor: "ebb", Data: []byte(`{"n":1}`)}
		if err := chain.Link(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	// The server returns at most three items a page, for every limit.
	f.script = func(w http.ResponseWriter, r *http.Request, _ []byte) {
		from, _ := strconv.Atoi(r.URL.Query().Get("after"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		to := min(from+min(limit, 3), len(entries))
		page := map[string]any{"items": entries[from:to]}
		if to < len(entries) {
			page["next"] = strconv.Itoa(to)
		}
		answer(w, 200, page)
	}
	for limit, want := range map[int]int{0: 7, 1: 1, 3: 3, 5: 5, 100: 7} {
		n := 0
		for e, err := range o.Audit.Entries(t.Context(), client.EntryFilter{Limit: limit}) {
			if err != nil || e.Hash != entries[n].Hash {
				t.Errorf("limit %d: entry %d: %+v, %v", limit, n, e, err)
			}
			n++
		}
		if n != want {
			t.Errorf("limit %d: %d entries, want %d", limit, n, want)
		}
	}
	before := len(f.calls)
	for range o.Audit.Entries(t.Context(), client.EntryFilter{TaskID: "t", LeaseID: "l", RequestID: "r", Kind: "lease.", Actor: "a", Limit: 7, Desc: true}) {
		break
	}
	if got, want := f.calls[before:], "GET /v1/audit?actor=a&kind=lease.&lease_id=l&limit=7&order=desc&request_id=r&task_id=t"; len(got) != 1 || got[0] != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		answer(w, 200, map[string]any{"items": entries[:1], "next": "for ever"})
	}
	n := 0
	for range o.Audit.Entries(t.Context(), client.EntryFilter{}) {
		n++
	}
	if n > 2 {
		t.Errorf("a cursor that does not move gave %d entries", n)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	o := f.operator(t, key)
	const export = "{\"a\":1}\n{\"checkpoint\":{}}\n"
	f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
		_, _ = io.WriteString(w, export)
	}
	var out strings.Builder
	if err := o.Audit.Export(t.Context(), client.EntryFilter{TaskID: "t"}, &out); err != nil || out.String() != export {
		t.Errorf("export %q, %v", out.String(), err)
	}
	if want := "GET /v1/audit?format=jsonl&task_id=t"; f.calls[0] != want {
		t.Errorf("got %s\nwant %s", f.calls[0], want)
	}
	if err := o.Audit.Proof(t.Context(), client.EntryFilter{Kind: "task."}, io.Discard); err != nil || f.calls[1] != "GET /v1/audit/proof?kind=task." {
		t.Errorf("got %s, %v", f.calls[1], err)
	}
	if err := o.Credentials.Proof(t.Context(), client.CredentialFilter{Owner: "bo"}, "acme/web", io.Discard); err != nil || f.calls[2] != "GET /v1/leases/proof?owner=bo&resource=acme%2Fweb" {
		t.Errorf("got %s, %v", f.calls[2], err)
	}
	f.script = ok(map[string]any{})
	if err := o.Audit.Export(t.Context(), client.EntryFilter{}, io.Discard); err == nil {
		t.Error("something else passed for an export")
	}
}

// An export that is cut off is an error.
func TestExportCut(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	f.script = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/jsonl")
		_, _ = io.WriteString(w, "{}\n")
		_ = http.NewResponseController(w).Flush()
		f.mu.Unlock() // the server unwinds past the deferred unlock
		defer f.mu.Lock()
		panic(http.ErrAbortHandler)
	}
	srv := httptest.NewServer(f)
	defer srv.Close()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: issuer, URL: srv.URL}, ClientID: "ci", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Audit.Export(t.Context(), client.EntryFilter{}, io.Discard); err == nil {
		t.Error("a cut export passed")
	}
}

func TestNewOperatorRefuses(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	for name, c := range map[string]client.OperatorConfig{
		"no key":         {Config: client.Config{Issuer: issuer}, ClientID: "x"},
		"no name":        {Config: client.Config{Issuer: issuer}, Key: key},
		"no issuer":      {ClientID: "x", Key: key},
		"plain http":     {Config: client.Config{Issuer: "http://ebb.test"}, ClientID: "x", Key: key},
		"plain http URL": {Config: client.Config{Issuer: issuer, URL: "http://10.0.0.1:8420"}, ClientID: "x", Key: key},
		"trick host":     {Config: client.Config{Issuer: "http://127.0.0.1.evil.test"}, ClientID: "x", Key: key},
		"localhost.evil": {Config: client.Config{Issuer: "http://localhost.evil.test"}, ClientID: "x", Key: key},
		"user":           {Config: client.Config{Issuer: "https://u:p@ebb.test"}, ClientID: "x", Key: key},
		"query":          {Config: client.Config{Issuer: "https://ebb.test?x"}, ClientID: "x", Key: key},
		"scheme":         {Config: client.Config{Issuer: "ftp://ebb.test"}, ClientID: "x", Key: key},
		"relative":       {Config: client.Config{Issuer: "ebb.test"}, ClientID: "x", Key: key},
	} {
		if _, err := client.NewOperator(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, good := range []string{"https://ebb.test/path", "http://127.0.0.1:8420", "http://[::1]:8420/", "http://localhost:1"} {
		if _, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: good}, ClientID: "x", Key: key}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// A token that permits only ends is replaced when the call needs more, and a
// store that stays slow is an error after two tokens.
func TestOperatorEndsOnlyToken(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "ci", time.Now)
	f.script = ok(wire.Task{})
	f.ends["token-1"] = true
	o := f.operator(t, key)
	if _, err := o.Tasks.Get(t.Context(), "x"); err != nil || f.tokens != 2 {
		t.Errorf("%v after %d tokens, want success with the second", err, f.tokens)
	}
	f, key = newFake(t, "ci", time.Now)
	f.script = ok(wire.Task{})
	f.ends["token-1"], f.ends["token-2"], f.ends["token-3"] = true, true, true
	o = f.operator(t, key)
	if _, err := o.Tasks.Get(t.Context(), "x"); !client.IsKind(err, wire.KindUnavailable) || f.tokens != 2 {
		t.Errorf("%v after %d tokens, want temporarily_unavailable after 2", err, f.tokens)
	}
	if _, err := o.Tasks.Complete(t.Context(), "x"); err != nil || f.tokens != 3 {
		t.Errorf("complete: %v after %d tokens, want success with the third", err, f.tokens)
	}
}
