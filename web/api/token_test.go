package api_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

func TestWalk(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	token := b.access(t, canRead)
	if !r.active(t, token) {
		t.Fatal("a fresh token is not active")
	}
	code := b.pend(t, mustAsk).text("deferral_code")
	if a := r.approve(t, nil); a.status != http.StatusOK {
		t.Fatalf("approving: %d %s", a.status, a.body)
	}
	r.env.Clock.Add(minute)
	written := b.poll(t, code)
	if written.status != http.StatusOK {
		t.Fatalf("polling: %d %s", written.status, written.body)
	}
	done := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+b.task+"/complete", nil)
	if done.status != http.StatusOK || done.number("revoked") != 2 {
		t.Fatalf("completing: %d %s", done.status, done.body)
	}
	if r.active(t, token) || r.active(t, written.text("access_token")) {
		t.Fatal("a token outlived its task")
	}
}

func TestRFC_A1_H43_OnlyPOST(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for _, path := range []string{"/oauth2/token", "/oauth2/introspect", "/oauth2/revoke", "/oauth2/bc-authorize"} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodHead} {
			req := r.request(method, path+"?"+b.exchange(canRead).Encode(), nil)
			b.prove(t)(req)
			a := r.do(t, req)
			if a.status != http.StatusMethodNotAllowed || !strings.Contains(a.header.Get("Allow"), "POST") || strings.Contains(a.body, "access_token") {
				t.Errorf("%s %s: %d, Allow %q, %s", method, path, a.status, a.header.Get("Allow"), a.body)
			}
		}
	}
}

func TestRFC_A2_H43_FormOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	req := r.request(http.MethodPost, tokenURL, encode(t, map[string]any{"grant_type": grantExchange, "subject_token": b.token, "subject_token_type": typeTask, "scope": canRead}))
	req.Header.Set("Content-Type", "application/json")
	b.prove(t)(req)
	r.do(t, req).want(t, "a JSON body", 400, "invalid_request")
	for _, ct := range []string{"", "text/plain", "multipart/form-data; boundary=a"} {
		a := r.post(t, tokenURL, b.exchange(canRead), b.prove(t), func(req *http.Request) {
			if req.Header.Del("Content-Type"); ct != "" {
				req.Header.Set("Content-Type", ct)
			}
		})
		a.want(t, "content type "+ct, 400, "invalid_request")
	}
	a := r.post(t, tokenURL, b.exchange(canRead), b.prove(t), header("Content-Type", "application/x-www-form-urlencoded;charset=UTF-8"))
	if a.status != 200 {
		t.Errorf("with a charset: %d %s", a.status, a.body)
	}
}

func TestRFC_A3_H43_NothingInTheQuery(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	f := b.exchange(canRead)
	for _, in := range []string{"scope=" + canRead, "subject_token=" + b.token, "access_token=x", "client_assertion=x", "x"} {
		r.post(t, tokenURL+"?"+in, f, b.prove(t)).want(t, "a query", 400, "invalid_request")
	}
	r.post(t, tokenURL+"?"+f.Encode(), url.Values{}, b.prove(t)).want(t, "everything in the query", 400, "invalid_request")
}

func TestRFC_A4_H43_Repeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	body := b.exchange(canRead).Encode()
	for _, again := range []string{"grant_type=x", "scope=" + canRead, "subject_token=x", "subject_token_type=x", "scope="} {
		r.postRaw(t, tokenURL, body+"&"+again, b.prove(t)).want(t, "repeated "+again, 400, "invalid_request")
	}
	res := url.QueryEscape(brokertest.Orders)
	a := r.postRaw(t, tokenURL, body+"&resource="+res+"&resource="+res+"&audience=orders&audience="+res, b.prove(t))
	if a.status != 200 {
		t.Errorf("repeated resource and audience: %d %s", a.status, a.body)
	}
}

func TestRFC_A5_EmptyIsOmitted(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	if a := b.ask(t, canRead, "code", "", "actor_token", "", "resource", "", "client_secret", "", "requested_expiry", ""); a.status != 200 {
		t.Errorf("empty parameters: %d %s", a.status, a.body)
	}
	b.ask(t, canRead, "subject_token", "").want(t, "an empty subject_token", 400, "invalid_request")
}

func TestRFC_A6_UnknownIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	if a := b.ask(t, canRead, "foo", "bar", "nonce", "1", "Scope", "orders:**:*"); a.status != 200 || a.text("scope") != canRead {
		t.Errorf("unknown parameters: %d %s", a.status, a.body)
	}
}

func TestRFC_A7_A8_A18_Answer(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	a := b.ask(t, canRead, "requested_expiry", "300")
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" || a.header.Get("Pragma") != "no-cache" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	_, c := claims(t, a.text("access_token"))
	life := c["exp"].(float64) - c["iat"].(float64)
	if got := a.number("expires_in"); got <= 0 || got < life-1 || got > life+1 || got > 300 {
		t.Errorf("expires_in %v, exp-iat %v", got, life)
	}
	if a.text("issued_token_type") != typeAccess || a.text("token_type") != "DPoP" {
		t.Errorf("%s", a.body)
	}
	if _, refresh := a.json["refresh_token"]; refresh {
		t.Error("A20: a refresh token was issued")
	}
}

func TestRFC_A9_ErrorAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	registered := []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
		"invalid_target", "invalid_authorization_details", "invalid_dpop_proof", "use_dpop_nonce", "authorization_pending", "slow_down",
		"expired_token", "access_denied", "interaction_required"}
	for _, f := range []url.Values{
		{}, {"grant_type": {"x"}}, {"grant_type": {"password"}, "username": {"a"}, "password": {"b"}}, {"grant_type": {grantCredentials}},
		{"grant_type": {grantJWTBearer}}, {"grant_type": {grantDeferred}}, {"grant_type": {grantDeferred}, "deferral_code": {"x"}},
		b.exchange("orders"), b.exchange(mustAsk), b.exchange(canRead, "resource", "x"), b.exchange(canRead, "authorization_details", "x"),
		b.exchange(canRead, "subject_token", "x"), b.exchange(canRead, "client_id", "x"),
	} {
		a := r.post(t, tokenURL, f, b.prove(t))
		a.want(t, f.Encode(), a.status, a.text("error"))
		if a.status != 400 && (a.status != 401 || a.text("error") != "invalid_client") || !slices.Contains(registered, a.text("error")) {
			t.Errorf("%s: %d %s", f.Encode(), a.status, a.body)
		}
	}
}

func TestRFC_A10_InvalidClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for scheme, value := range map[string]string{"Basic": "Basic YTpi", "Bearer": "Bearer abc", "DPoP": "DPoP abc"} {
		a := r.post(t, tokenURL, b.exchange(canRead), b.prove(t), header("Authorization", value))
		a.want(t, scheme, 401, "invalid_client")
		if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), scheme+" ") {
			t.Errorf("%s: challenge %q", scheme, a.header.Get("WWW-Authenticate"))
		}
	}
	a := r.post(t, tokenURL, url.Values{"grant_type": {grantCredentials}, "client_assertion_type": {assertionType}, "client_assertion": {"a.b.c"}}, b.prove(t))
	a.want(t, "a bad assertion", 401, "invalid_client")
	if a.header.Get("WWW-Authenticate") != "" {
		t.Error("a challenge without an Authorization header breaks clients")
	}
}

func TestRFC_A11_H23_OneMethodOfClientAuthentication(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	f := with(url.Values{"grant_type": {grantCredentials}, "scope": {canRead}}, b.assertion(t)...)
	r.post(t, tokenURL, f, b.prove(t), header("Authorization", "Basic YTpi")).want(t, "assertion and Basic", 400, "invalid_request")
	r.post(t, tokenURL, with(f, "client_secret", "s"), b.prove(t)).want(t, "assertion and secret", 400, "invalid_request")
	r.post(t, tokenURL, b.exchange(canRead, "client_secret", "s"), b.prove(t), header("Authorization", "Basic YTpi")).want(t, "Basic and secret", 400, "invalid_request")
	r.post(t, tokenURL, b.exchange(canRead, "client_secret", "s"), b.prove(t)).want(t, "a secret", 401, "invalid_client")
	r.post(t, tokenURL, with(f, "client_assertion_type", "-"), b.prove(t)).want(t, "assertion without type", 400, "invalid_request")
	r.post(t, tokenURL, with(f, "client_assertion", "-"), b.prove(t)).want(t, "type without assertion", 400, "invalid_request")
	r.post(t, tokenURL, with(f, "client_assertion_type", "urn:x"), b.prove(t)).want(t, "unknown type", 401, "invalid_client")
	r.post(t, tokenURL, with(f, "client_id", "sbx_other"), b.prove(t)).want(t, "another client_id", 401, "invalid_client")
	twice := func(req *http.Request) { req.Header["Authorization"] = []string{"Basic YTpi", "Basic YTpi"} }
	r.post(t, tokenURL, b.exchange(canRead), b.prove(t), twice).want(t, "two headers", 400, "invalid_request")
	f = with(f, b.assertion(t)...)
	if a := r.post(t, tokenURL, with(f, "client_id", b.client), b.prove(t)); a.status != 200 {
		t.Errorf("the same client_id: %d %s", a.status, a.body)
	}
}

func TestRFC_A12_Grants(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for _, g := range []string{"authorization_code", "password", "refresh_token", "implicit", "Client_Credentials", "urn:ietf:params:oauth:grant-type:device_code", " client_credentials"} {
		r.post(t, tokenURL, b.exchange(canRead, "grant_type", g), b.prove(t)).want(t, g, 400, "unsupported_grant_type")
	}
	b.ask(t, canRead, "grant_type", "-").want(t, "no grant_type", 400, "invalid_request")
}
