package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

func (b *box) revoke(t testing.TB, token string, more ...string) *answer {
	t.Helper()
	f := with(url.Values{"token": {token}}, b.assertion(t)...)
	return b.r.post(t, "/oauth2/revoke", with(f, more...), b.prove(t))
}

func (a *answer) emptyOK(t testing.TB, what string) {
	t.Helper()
	if a.status != 200 || a.body != "" {
		t.Errorf("%s: %d %q, want 200 and nothing", what, a.status, a.body)
	}
}

func TestRFC_A75_A76_A77_H62_Revoke(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	other := r.replica(t)
	b := r.sandbox(t)
	for _, hint := range []string{"", "access_token", "refresh_token", "nonsense"} {
		token := b.access(t, canRead)
		b.revoke(t, token, "token_type_hint", hint).emptyOK(t, "A77 hint "+hint)
		if r.active(t, token) || other.active(t, token) {
			t.Errorf("A75 hint %q: still active", hint)
		}
		b.revoke(t, token).emptyOK(t, "A76 again")
	}
	for name, token := range map[string]string{"garbage": "x", "malformed": "a.b.c", "a proof": r.proof(t, b.key, "POST", "/", ""), "a task token": b.token, "an unknown code": "ebb_dfr_x"} {
		b.revoke(t, token).emptyOK(t, "A76 "+name)
	}
	if !r.active(t, b.access(t, canRead)) {
		t.Error("after all that nothing mints")
	}
}

//ebb:invariant I2 A principal of any role can revoke its own access tokens for the ebb API; without the operator role it can revoke no other token
func TestRFC_A78_H62_ForeignToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b, thief := r.sandbox(t), r.sandbox(t)
	token := b.access(t, canRead)
	thief.revoke(t, token).emptyOK(t, "a foreign token")
	code := b.pend(t, mustAsk).text("deferral_code")
	thief.revoke(t, code).emptyOK(t, "a foreign code")
	r.post(t, "/oauth2/revoke", r.client(t, brokertest.Server, url.Values{"token": {token}})).want(t, "a resource server", 400, "unauthorized_client")
	if !r.active(t, token) {
		t.Error("it was revoked by another sandbox")
	}
	r.pendingRequest(t)
	r.post(t, "/oauth2/revoke", r.client(t, brokertest.Operator, url.Values{"token": {token}})).emptyOK(t, "an operator")
	if r.active(t, token) {
		t.Error("an operator's revocation had no effect")
	}
}

func TestRFC_A79_Unauthenticated(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	token := b.access(t, canRead)
	f := url.Values{"token": {token}}
	r.post(t, "/oauth2/revoke", f).want(t, "nobody", 401, "invalid_client")
	r.post(t, "/oauth2/revoke", f, b.prove(t)).want(t, "a proof alone", 401, "invalid_client")
	r.post(t, "/oauth2/revoke", with(f, "client_assertion_type", assertionType, "client_assertion", "x.y.z")).want(t, "garbage", 401, "invalid_client")
	r.post(t, "/oauth2/revoke", with(url.Values{}, b.assertion(t)...), b.prove(t)).want(t, "no token", 400, "invalid_request")
	if !r.active(t, token) {
		t.Error("it is gone all the same")
	}
	// RFC 7009 requires no proof: an ordinary client revokes its own token.
	r.post(t, "/oauth2/revoke", with(f, b.assertion(t)...)).emptyOK(t, "an assertion alone")
	if r.active(t, token) {
		t.Error("an assertion alone revoked nothing")
	}
}

// A sandbox with only its task token and key can revoke too.
func TestRevokeWithTaskToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b, thief := r.sandbox(t), r.sandbox(t)
	token := b.access(t, canRead)
	send := func(x *box, taskToken string) *answer {
		return r.post(t, "/oauth2/revoke", url.Values{"token": {token}}, header("Authorization", "DPoP "+taskToken),
			header("DPoP", r.proof(t, x.key, "POST", "/oauth2/revoke", taskToken)))
	}
	send(thief, b.token).want(t, "a stolen task token", 401, "invalid_token")
	if !r.active(t, token) {
		t.Fatal("it is gone")
	}
	calm := r.sandbox(t)
	token = calm.access(t, canRead)
	send(calm, calm.token).emptyOK(t, "its own")
	if r.active(t, token) {
		t.Error("still active")
	}
}

func TestRFC_A80_Complete(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	other := r.replica(t)
	b := r.sandbox(t)
	tokens := []string{b.access(t, canRead), b.access(t, "orders:eu/43:read"), b.access(t, "mail:inbox:read")}
	code := b.pend(t, mustAsk).text("deferral_code")
	path := "/v1/tasks/" + b.task + "/complete"
	done := r.v1(t, brokertest.Runner, http.MethodPost, path, nil)
	if done.status != 200 || done.number("revoked") != 3 || done.number("withdrawn_pending") != 1 || done.json["already_complete"] != false {
		t.Errorf("%d %s", done.status, done.body)
	}
	for _, token := range tokens {
		if r.active(t, token) || other.active(t, token) {
			t.Error("a token survived")
		}
	}
	b.poll(t, code).want(t, "its code", 400, "invalid_grant")
	b.ask(t, canRead).want(t, "H59 a mint afterwards", 400, "invalid_request")
	other.post(t, tokenURL, b.exchange(canRead), b.prove(t)).want(t, "H59 at another replica", 400, "invalid_request")
	again := r.v1(t, brokertest.Runner, http.MethodPost, path, nil)
	if again.status != 200 || again.json["already_complete"] != true {
		t.Errorf("again: %d %s", again.status, again.body)
	}
	restarted := r.replica(t)
	restarted.post(t, tokenURL, b.exchange(canRead), b.prove(t)).want(t, "after a restart", 400, "invalid_request")
	if restarted.active(t, tokens[0]) {
		t.Error("a restart revived a token")
	}
}

// A81, H58: no token outlives its task, also when other calls race with the end
// of the task.
func TestRFC_A81_H58_Race(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	var mu sync.Mutex
	var tokens []string
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			<-start
			if a := b.ask(t, canRead); a.status == 200 {
				mu.Lock()
				tokens = append(tokens, a.text("access_token"))
				mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		<-start
		if a := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+b.task+"/complete", nil); a.status != 200 {
			t.Errorf("completing: %d %s", a.status, a.body)
		}
	})
	close(start)
	wg.Wait()
	for _, token := range tokens {
		if r.active(t, token) {
			t.Fatal("a token outlived its task")
		}
	}
}

// RFC 7009 section 2.1: a client may revoke the tokens issued to it. A
// principal of any role can revoke its own tokens for the API, and no others.
//
//ebb:invariant I2 A principal of any role can revoke its own access tokens for the ebb API; without the operator role it can revoke no other token
func TestRevokeOwnAPIToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	other := r.replica(t)
	go func() { _ = other.env.Broker.Run(t.Context()) }()
	foreign := r.apiToken(t, brokertest.Runner2)
	for _, who := range []string{brokertest.Runner, brokertest.Approver, brokertest.Auditor, brokertest.Server, brokertest.Operator} {
		key := r.env.Keys[who]
		knows := func(at *rig, token string) bool {
			a := at.v1With(t, token, key, http.MethodGet, "/v1/tasks", nil)
			return a.status != 401
		}
		byAssertion := func(token string) *answer {
			return r.post(t, "/oauth2/revoke", r.client(t, who, url.Values{"token": {token}}))
		}
		token := r.apiToken(t, who)
		if !knows(r, token) || !knows(other, token) {
			t.Fatalf("%s: a new token is refused", who)
		}
		byAssertion(token).emptyOK(t, who+" by its assertion")
		if knows(r, token) {
			t.Errorf("%s: what it gave back is good", who)
		}
		for knows(other, token) { // which follows the feed
			time.Sleep(time.Millisecond)
		}
		byAssertion(token).emptyOK(t, who+" again")
		byAssertion("x").emptyOK(t, who+": no token")
		token = r.apiToken(t, who)
		r.post(t, "/oauth2/revoke", url.Values{"token": {token}}, header("Authorization", "DPoP "+token),
			header("DPoP", r.proof(t, key, http.MethodPost, "/oauth2/revoke", token))).emptyOK(t, who+" by the token itself")
		if knows(r, token) {
			t.Errorf("%s: what it gave back by itself is good", who)
		}
		if who != brokertest.Operator {
			byAssertion(foreign).want(t, who+": the token of another principal", 400, "unauthorized_client")
		}
	}
	if a := r.v1With(t, foreign, r.env.Keys[brokertest.Runner2], http.MethodGet, "/v1/tasks", nil); a.status != 200 {
		t.Errorf("another principal's token is gone: %d %s", a.status, a.body)
	}
}

// TestRevokeWithoutLiveStore: a credential revoked with the key that it was
// issued to is refused by this ebb, although the LiveStore cannot tell whose
// key that is.
//
//ebb:invariant I6 A sandbox that proves the key to which a credential is bound can revoke the credential while the live store is unavailable
//ebb:invariant I6 While the live store is unavailable, a sandbox can revoke a credential only with proof of the key to which it is bound
func TestRevokeWithoutLiveStore(t *testing.T) {
	t.Parallel()
	r, f := faultyRig(t)
	b, thief := r.sandbox(t), r.sandbox(t)
	first, second, third, foreign := b.ask(t, canRead), b.ask(t, canRead), b.ask(t, canRead), b.ask(t, canRead)
	code := b.pend(t, mustAsk).text("deferral_code")
	request := r.pendingRequest(t)["id"].(string)
	f.liveStore.Store(true)
	by := func(x *box, token string, more ...func(*http.Request)) *answer {
		return r.post(t, "/oauth2/revoke", url.Values{"token": {token}}, append(more, header("Authorization", "DPoP "+x.token),
			header("DPoP", r.proof(t, x.key, "POST", "/oauth2/revoke", x.token)))...)
	}
	for what, a := range map[string]*answer{
		"by its assertion and key": b.revoke(t, first.text("access_token")), "by its task token": by(b, second.text("access_token")), "by its lease id": by(b, third.text("lease_id")),
	} {
		a.want(t, what, 503, "temporarily_unavailable")
		if a.header.Get("Retry-After") == "" || !strings.Contains(a.text("error_description"), "Live store: pending. Database: done.") {
			t.Errorf("%s: the answer does not say how far it has got: %s", what, a.body)
		}
	}
	by(b, code).emptyOK(t, "its deferral code")
	stolen := foreign.text("access_token")
	by(thief, stolen).want(t, "by the key of another sandbox", 503, "temporarily_unavailable")
	by(thief, foreign.text("lease_id")).want(t, "by another's lease id", 503, "temporarily_unavailable")
	r.post(t, "/oauth2/revoke", with(url.Values{"token": {stolen}}, thief.assertion(t)...)).want(t, "without a proof", 503, "temporarily_unavailable")
	f.liveStore.Store(false)
	for what, a := range map[string]*answer{"first": first, "second": second, "third": third} {
		if r.active(t, a.text("access_token")) {
			t.Errorf("the %s is active here after Redis came back", what)
		}
		if l := r.v1(t, brokertest.Auditor, http.MethodGet, "/v1/leases/"+a.text("lease_id"), nil); l.text("state") != "revoked" || l.text("revoked_by") != first.text("client_id") && !strings.HasPrefix(l.text("revoked_by"), "sbx_") {
			t.Errorf("the %s is on the record as %s", what, l.body)
		}
	}
	if p := r.v1(t, brokertest.Auditor, http.MethodGet, "/v1/requests/"+request, nil); p.text("state") != "withdrawn" {
		t.Errorf("the request is %s", p.body)
	}
	if !r.active(t, stolen) {
		t.Error("another sandbox has ended what was not its own")
	}
}

// The feed lists the audiences that it covers, so that a resource server that
// is not among them does not rely on it.
func TestRevocationsNameAudiences(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	a := r.v1(t, brokertest.Server, http.MethodGet, "/v1/revocations", nil)
	if list, _ := a.json["audiences"].([]any); len(list) != 1 || list[0] != brokertest.Orders {
		t.Errorf("a resource server: %d %s", a.status, a.body)
	}
	for _, who := range []string{brokertest.Operator, brokertest.Auditor} {
		if a := r.v1(t, who, http.MethodGet, "/v1/revocations", nil); a.status != 200 || a.json["audiences"] != nil {
			t.Errorf("%s: %d %s", who, a.status, a.body)
		}
	}
}
