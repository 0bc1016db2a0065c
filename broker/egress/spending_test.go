package egress_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress/content/fields"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// spendingPolicy allows payments up to EUR 50 for a task. A person decides about a larger one, up to
// EUR 500.
const spendingPolicy = `
@id("read") permit (principal, action == Ebb::Action::"read", resource);
@id("write") permit (principal, action == Ebb::Action::"write", resource);
@id("mail") @max_amount("mails 3") permit (principal, action == Ebb::Action::"send", resource);
@id("small") @max_amount("EUR 50") permit (principal, action == Ebb::Action::"pay", resource) when { context.content.kind == "" };
@id("large") @ask("approvers") permit (principal, action == Ebb::Action::"pay", resource)
when { context.content.kind == "json" && context.content.unit == "EUR" && context.content.amount.lessThanOrEqual(decimal("500.0")) };`

// spendingBed is a bed with an API for payments and mails.
func spendingBed(t *testing.T, policies string) *bed {
	t.Helper()
	return spendingBedOf(t, echo, policies)
}

// spendingBedOf is spendingBed with a handler of the upstream.
func spendingBedOf(t *testing.T, handle http.HandlerFunc, policies string) *bed {
	t.Helper()
	return newBedOf(t, handle, func(_ *bed, c *static.Config) {
		c.Grants["payments"] = map[string]static.Rule{"pay": {
			Rule: stricturl.Rule{Methods: []string{"POST", "PUT"}, Paths: []string{"/v1/payments", "/v1/payments/*"}},
			Body: &fields.Rule{Format: fields.JSON, Decimals: 2, Units: []string{"EUR", "USD"}, Fields: map[string]string{"/amount": fields.Amount, "/currency": fields.Unit, "/for": fields.Show}},
		}}
		c.Grants["mails"] = map[string]static.Rule{"send": {
			Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/v1/mails"}},
			Body: &fields.Rule{Format: fields.JSON, Units: []string{"mails"}, Fields: map[string]string{"/to/*": fields.Email, "/id": fields.Count, "/text": fields.Any}},
		}}
	}, func(c *brokertest.Config) { c.Policies["p.cedar"] = []byte(policies) })
}

// pay sends a payment of hundredths of a euro.
func (x *sandbox) pay(t *testing.T, placeholder string, cents int) (status int, body string) {
	t.Helper()
	return x.post(t, placeholder, "/v1/payments", fmt.Sprintf(`{"amount":%d,"currency":"eur"}`, cents))
}

func (x *sandbox) post(t *testing.T, placeholder, path, body string) (int, string) {
	t.Helper()
	res, got := send(t, x.client(t, false), http.MethodPost, "https://"+x.b.host+path, body, "Authorization", "Bearer "+placeholder, "Content-Type", "application/json")
	return res.StatusCode, got
}

// approved asks for a credential that is limited to one content, has a person approve it, and returns
// its placeholder.
func (x *sandbox) approved(t *testing.T, scope, id string) string {
	t.Helper()
	r := x.s.Request(t, scope)
	r.Content, r.Deferred = id, true
	_, err := x.b.Broker.Token(t.Context(), r)
	pending := broker.AsError(err).Pending
	if pending == nil {
		t.Fatalf("no person is asked: %v", err)
	}
	who := x.b.Principals[brokertest.Approver]
	req, err := x.b.Broker.Request(t.Context(), who, pending.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.b.Broker.Decide(t.Context(), who, req.ID, broker.Verdict{Approve: true, Digest: req.Digest, Target: req.Target(), Present: true}); err != nil {
		t.Fatal(err)
	}
	got, err := x.s.Poll(t, pending.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return got.Token.Reveal()
}

// A task spends what its policy allows, over all of its leases and delegates. A refusal says what is
// spent, and names the content that a person can approve. An approved payment is sent once.
//
//ebb:invariant I12 The amounts that a task and its delegates spend through a provider stay within @max_amount of the policy
//ebb:invariant I7 A credential that was approved for one request is used for it once
func TestSpends(t *testing.T) {
	t.Parallel()
	b := spendingBed(t, spendingPolicy)
	top, below := b.delegating(t)
	x := b.boxOf(t, top)
	const scope = "stripe:payments:pay"
	p, child := x.placeholder(t, scope), below.placeholder(t, scope)
	for _, step := range []struct {
		by     *sandbox
		with   string
		cents  int
		status int
		says   string
	}{
		{x, p, 2000, 200, ""}, {below, child, 1500, 200, ""}, {x, p, 1501, 403, "of EUR 50 for this task EUR 35 are spent"}, {below, child, 1501, 403, "it would spend EUR 15.01"},
		{x, x.placeholder(t, scope), 1500, 200, ""}, {below, child, 1, 403, "EUR 50 are spent"}, {x, p, 0, 400, "above 0"},
	} {
		if status, body := step.by.pay(t, step.with, step.cents); status != step.status || !strings.Contains(body, step.says) {
			t.Fatalf("%d cents: %d %s; want %d %s", step.cents, status, body, step.status, step.says)
		}
	}
	if status, body := x.post(t, p, "/v1/payments", `{"amount":1,"currency":"usd"}`); status != 403 || !strings.Contains(body, "no amounts in USD") {
		t.Errorf("another unit: %d %s", status, body)
	}

	_, body := x.pay(t, p, 8000)
	once := x.approved(t, scope, contentForm.FindString(body))
	if status, body := x.pay(t, once, 8001); status != 403 {
		t.Errorf("another amount: %d %s", status, body)
	}
	if status, body := x.pay(t, once, 8000); status != 200 {
		t.Errorf("the approved payment: %d %s", status, body)
	}
	if status, body := x.pay(t, once, 8000); status != 403 {
		t.Errorf("the approved payment again: %d %s", status, body)
	}
	// An approval that has been used leads to no other lease: a person is asked again.
	x.approved(t, scope, contentForm.FindString(body))
	// The client still names its first lease, and egress sends the request by the approved one.
	_, body = x.pay(t, p, 9000)
	x.approved(t, scope, contentForm.FindString(body))
	for i, want := range []int{200, 403} {
		if status, body := x.pay(t, p, 9000); status != want {
			t.Errorf("%d. approved payment by the first lease: %d %s", i+1, status, body)
		}
	}
	_, body = x.pay(t, p, 50001)
	r := x.s.Request(t, scope)
	r.Content, r.Deferred = contentForm.FindString(body), true
	if _, err := b.Broker.Token(t.Context(), r); broker.AsError(err).Kind != broker.Denied {
		t.Errorf("a payment above what people may approve: %v", err)
	}
	b.decidedOnRecord(t, top.Task.ID)
	b.spendingOnRecord(t, top.Task.ID)
}

// decidedOnRecord checks that decisions of TestSpends can be replayed: their entries have the content
// that the policy saw, and the limit that it decided.
func (b *bed) decidedOnRecord(t *testing.T, task string) {
	t.Helper()
	es, err := b.Broker.Entries(t.Context(), b.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: task})
	if err != nil {
		t.Fatal(err)
	}
	log := ""
	for e, err := range es {
		if err != nil {
			t.Fatal(err)
		}
		log += e.Kind + " " + string(e.Data) + "\n"
	}
	const content = `"content":{"actions":["pay"],"amount":"EUR %s","kind":"json","objects":["payments"]}`
	for kind, want := range map[string]string{audit.LeaseIssued: fmt.Sprintf(content, "80"), audit.TokenDenied: fmt.Sprintf(content, "500.01"), audit.LeaseIssued + " limited": `"max_amount":["EUR 50"]`} {
		kind, _, _ = strings.Cut(kind, " ")
		if !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool { return strings.HasPrefix(line, kind+" ") && strings.Contains(line, want) }) {
			t.Errorf("no %s has %s:\n%s", kind, want, log)
		}
	}
}

// spendingOnRecord checks the entries of TestSpends.
func (b *bed) spendingOnRecord(t *testing.T, task string) {
	t.Helper()
	log := ""
	for _, e := range b.uses(t, task) {
		log += e.Kind + " " + string(e.Data) + "\n"
	}
	for _, sum := range []string{"EUR 20", "EUR 80"} {
		if want := `"operations":[{"action":"pay","amount":"` + sum + `","details":{"request":"POST https://` + b.host + `/v1/payments"},"object":"payments"}]`; !strings.Contains(log, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, log)
		}
	}
	if n := strings.Count(log, audit.EgressAllowed+" "); n != 4 {
		t.Errorf("%d allowed requests of the task itself are on record; want 4:\n%s", n, log)
	}
}

// An approval for one request is also for its method and URL. The rule can allow several of both.
//
//ebb:invariant I7 A credential that was approved for one request is used for no request with another method or URL
func TestApprovedAddress(t *testing.T) {
	t.Parallel()
	b := spendingBed(t, spendingPolicy)
	x := b.boxOf(t, b.task(t))
	const scope, body = "stripe:payments:pay", `{"amount":8000,"currency":"eur"}`
	_, refused := x.post(t, x.placeholder(t, scope), "/v1/payments/alice", body)
	once := x.approved(t, scope, contentForm.FindString(refused))
	for _, path := range []string{"/v1/payments/mallory", "/v1/payments"} {
		if status, got := x.post(t, once, path, body); status != 403 {
			t.Errorf("the approval for alice at %s: %d %s", path, status, got)
		}
	}
	if res, got := send(t, x.client(t, false), http.MethodPut, "https://"+x.b.host+"/v1/payments/alice", body, "Authorization", "Bearer "+once, "Content-Type", "application/json"); res.StatusCode != 403 {
		t.Errorf("another method: %s %s", res.Status, got)
	}
	if status, got := x.post(t, once, "/v1/payments/alice", body); status != 200 {
		t.Errorf("the approved request: %d %s", status, got)
	}
	if status, got := x.post(t, once, "/v1/payments/"+strings.Repeat("a", 300), body); status != 400 {
		t.Errorf("a long URL: %d %s", status, got)
	}
}

// The limit decides how many simultaneous requests are sent. Under one approval one is sent.
//
//ebb:invariant I12 Simultaneous requests cannot spend more than @max_amount
func TestSpendsAtOnce(t *testing.T) {
	t.Parallel()
	b := spendingBed(t, spendingPolicy)
	x := b.boxOf(t, b.task(t))
	p := x.placeholder(t, "stripe:payments:pay")
	all := func(with string, cents int) (sent int) {
		before := len(b.arrived())
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if status, body := x.pay(t, with, cents); status != http.StatusOK && status != http.StatusForbidden {
					t.Errorf("%d %s", status, body)
				}
			})
		}
		wg.Wait()
		return len(b.arrived()) - before
	}
	if n := all(p, 1000); n != 5 {
		t.Errorf("%d payments of EUR 10 were sent within EUR 50", n)
	}
	_, body := x.pay(t, p, 7000)
	if n := all(x.approved(t, "stripe:payments:pay", contentForm.FindString(body)), 7000); n != 1 {
		t.Errorf("one approved payment was sent %d times", n)
	}
}

// People see what a credential may spend, and it spends no more.
//
//ebb:invariant I7 A person who approves a credential sees the amounts that it may spend
func TestSpendsAsApproved(t *testing.T) {
	t.Parallel()
	b := spendingBed(t, `@id("ask") @ask("approvers") @max_amount("EUR 7") permit (principal, action, resource);`)
	x := b.boxOf(t, b.task(t))
	r := x.s.Request(t, "stripe:payments:pay")
	r.Deferred = true
	_, err := b.Broker.Token(t.Context(), r)
	pending := broker.AsError(err).Pending
	if pending == nil {
		t.Fatal(err)
	}
	who := b.Principals[brokertest.Approver]
	req, err := b.Broker.Request(t.Context(), who, pending.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := req.Sheet(); err != nil || f.MaxAmount.String() != "EUR 7" {
		t.Errorf("the person sees %q, %v", f.MaxAmount, err)
	}
	if _, err := b.Broker.Decide(t.Context(), who, req.ID, broker.Verdict{Approve: true, Digest: req.Digest, Target: req.Target(), Present: true}); err != nil {
		t.Fatal(err)
	}
	got, err := x.s.Poll(t, pending.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	for cents, want := range map[int]int{701: 403, 700: 200} {
		if status, body := x.pay(t, got.Token.Reveal(), cents); status != want {
			t.Errorf("%d cents: %d %s", cents, status, body)
		}
	}
}

// A mail goes only to recipients that the scopes name.
//
//ebb:invariant I5 A request is sent only if the lease's scopes cover each object that the configuration reads from its body
func TestRecipients(t *testing.T) {
	t.Parallel()
	b := spendingBed(t, spendingPolicy)
	x := b.boxOf(t, b.task(t))
	p := x.placeholder(t, "stripe:mails/example.com/*:send stripe:mails/example.org/eve:send")
	for _, tt := range []struct {
		to, says string
		status   int
	}{
		{`"bob@example.com"`, "", 200}, {`"bob@example.com","Eve@EXAMPLE.ORG"`, "stripe:mails/example.org/Eve:send", 403}, {`"bob@example.com","eve@EXAMPLE.ORG"`, "", 200},
		{`"bob@example.com","mallory@example.org"`, "stripe:mails/example.org/mallory:send", 403}, {`"bob@sub.example.com"`, "stripe:mails/sub.example.com/bob:send", 403}, {``, "its field 2 ", 400},
		{`"Bob <bob@example.com>"`, "plain address", 400}, {`"bob@example.com"`, "", 200}, {`"bob@example.com"`, "of mails 3 for this task mails 3 are spent", 403},
	} {
		if status, body := x.post(t, p, "/v1/mails", `{"id":"m","to":[`+tt.to+`],"text":"hi"}`); status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("to %s: %d %s; want %d %s", tt.to, status, body, tt.status, tt.says)
		}
	}
	for _, wrong := range []string{"stripe:mails:send", "stripe:mails/**:*", "stripe:**:send", "stripe:payments/x:pay"} {
		if _, err := x.s.Ask(t, wrong); broker.AsError(err).Kind != broker.InvalidScope {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// ebb does not read the messages of a WebSocket, which can spend or change anything.
//
//ebb:invariant I12 No lease with a limit of amounts, or for one request only, opens a WebSocket
func TestLimitsWithoutWebSocket(t *testing.T) {
	t.Parallel()
	b := spendingBedOf(t, sockets, spendingPolicy+`
@id("listen") @max_amount("EUR 50") permit (principal, action == Ebb::Action::"listen", resource) when { context.content.kind == "" };
@id("one") @ask("approvers") permit (principal, action == Ebb::Action::"listen", resource) when { context.content.kind != "" };`)
	x := b.boxOf(t, b.task(t))
	for _, scope := range []string{"stripe:charges:listen", "stripe:charges:listen stripe:payments:pay"} {
		if _, err := x.s.Ask(t, scope); err == nil || broker.AsError(err).Kind != broker.Denied || !strings.Contains(err.Error(), "@max_amount") {
			t.Errorf("%s with a limit: %v", scope, err)
		}
	}
	_, body := x.pay(t, x.placeholder(t, "stripe:payments:pay"), 8000)
	once := x.approved(t, "stripe:charges:listen stripe:payments:pay", contentForm.FindString(body))
	if ws, err := x.socketTo(t, "/ws/echo", "Bearer "+once); err == nil {
		_ = ws.Close()
		t.Error("a lease for one request opens a WebSocket")
	}
	if len(b.arrived()) != 0 {
		t.Errorf("%d requests arrived", len(b.arrived()))
	}
}

// A request whose amount ebb does not read cannot evade a limit of amounts.
func TestSpendsUnread(t *testing.T) {
	t.Parallel()
	b := spendingBed(t, `@id("all") @max_amount("EUR 50, mails 1") permit (principal, action, resource);`)
	x := b.boxOf(t, b.task(t))
	for _, scope := range []string{"stripe:charges:write", "stripe:payments:pay stripe:charges:write"} {
		if _, err := x.s.Ask(t, scope); broker.AsError(err).Kind != broker.Denied || !strings.Contains(err.Error(), "@max_amount") {
			t.Errorf("%s: %v", scope, err)
		}
	}
	p := x.placeholder(t, "stripe:payments:pay stripe:charges:read")
	if res, body := send(t, x.client(t, false), http.MethodGet, "https://"+b.host+"/v1/payments", "", "Authorization", "Bearer "+p); res.StatusCode != 200 {
		t.Errorf("a request that reads: %s %s", res.Status, body)
	}
	for name, r := range map[string][2]string{"parameters": {"/v1/payments?amount=9", `{"amount":1,"currency":"eur"}`}, "a field too many": {"/v1/payments", `{"amount":1,"currency":"eur","tip":9}`}} {
		before := len(b.arrived())
		if status, body := x.post(t, p, r[0], r[1]); status != 400 || len(b.arrived()) != before {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// An upstream that closes the connection after an approved request, without an answer, may have acted on
// it. ebb does not send the request again, also with an Idempotency-Key.
//
//ebb:invariant I7 ebb never sends a request that was approved once, or whose amount was counted, a second time by itself
func TestSpendsOnBrokenConnection(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		b := spendingBedOf(t, func(w http.ResponseWriter, r *http.Request) {
			if echo(w, r); r.Header.Get(header) != "" {
				panic(http.ErrAbortHandler)
			}
		}, spendingPolicy)
		b.upstream.TLS.NextProtos = []string{"http/1.1"} // streams of HTTP/2 end alone
		x := b.boxOf(t, b.task(t))
		p := x.placeholder(t, "stripe:payments:pay")
		if status, body := x.pay(t, p, 100); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		before := len(b.arrived())
		res, _ := send(t, x.client(t, false), http.MethodPost, "https://"+b.host+"/v1/payments", `{"amount":100,"currency":"eur"}`, "Authorization", "Bearer "+p, "Content-Type", "application/json", header, "k")
		if n := len(b.arrived()) - before; n != 1 {
			t.Errorf("%s: the payment arrived %d times (%s)", header, n, res.Status)
		}
	}
}
