package api_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"

	"ebb/broker/brokertest"
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
	// RFC 7009 asks for no proof: an ordinary client gives back what is its own.
	r.post(t, "/oauth2/revoke", with(f, b.assertion(t)...)).emptyOK(t, "an assertion alone")
	if r.active(t, token) {
		t.Error("an assertion alone revoked nothing")
	}
}

// A sandbox that holds nothing but its task token and key can revoke too.
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

// A81, H58: whatever races with the end of a task, no token outlives it.
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
