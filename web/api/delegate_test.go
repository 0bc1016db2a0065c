package api_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// delegating is a task whose sandbox may delegate.
func delegating() broker.TaskSpec {
	s := spec()
	s.Delegation = &broker.Delegation{Expect: broker.Expect{Attestor: "enroll"}, Depth: 1}
	return s
}

// delegate delegates with a client assertion.
func (b *box) delegate(t testing.TB, scope string, more ...string) *answer {
	t.Helper()
	f := with(url.Values{"scope": {scope}}, b.assertion(t)...)
	return b.r.post(t, "/oauth2/delegate", with(f, more...), b.prove(t))
}

// enrolDelegate enrols the sandbox that b delegated to.
func (b *box) enrolDelegate(t testing.TB, a *answer) *box {
	t.Helper()
	if a.status != http.StatusCreated {
		t.Fatalf("delegating: %d %s", a.status, a.body)
	}
	other := &box{r: b.r, key: brokertest.NewKey(t)}
	var err error
	if other.jkt, err = jose.Thumbprint(other.key.Public()); err != nil {
		t.Fatal(err)
	}
	e := b.r.enroll(t, other.key, map[string]any{"ticket": a.text("ticket")})
	if e.status != http.StatusOK {
		t.Fatalf("enrolling: %d %s", e.status, e.body)
	}
	other.task, other.client, other.token = e.text("task_id"), e.text("client_id"), e.text("task_token")
	return other
}

// A21, over HTTP: act contains the sandboxes that delegated, and the end of the
// parent task ends the token.
func TestRFC_A21_Delegate(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandboxFor(t, delegating())
	a := b.delegate(t, canRead, "requested_expiry", "60")
	other := b.enrolDelegate(t, a)
	if other.task != a.text("task_id") || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the answer is %s", a.body)
	}
	token := other.access(t, canRead)
	claims := r.introspect(t, token)
	act, _ := claims.json["act"].(map[string]any)
	before, _ := act["act"].(map[string]any)
	if claims.json["active"] != true || act["sub"] != other.client || before["sub"] != b.client || before["act"] != nil || len(before) != 2 {
		t.Errorf("the token says %s", claims.body)
	}
	done := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+b.task+"/complete", nil)
	if done.status != 200 || done.number("delegated_tasks") != 1 || done.number("revoked") != 1 || r.active(t, token) {
		t.Errorf("the end: %d %s", done.status, done.body)
	}
	if got := r.v1(t, brokertest.Runner, http.MethodGet, "/v1/tasks/"+other.task, nil); got.text("cause") != "parent" {
		t.Errorf("the delegated task: %s", got.body)
	}
}

func TestDelegateByTaskToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b, thief := r.sandboxFor(t, delegating()), r.sandbox(t)
	shown := func(key jose.Signer, scheme, token string) *answer {
		return r.post(t, "/oauth2/delegate", url.Values{"scope": {canRead}}, func(req *http.Request) {
			req.Header.Set("Authorization", scheme+" "+token)
			req.Header.Set("DPoP", r.proof(t, key, http.MethodPost, "/oauth2/delegate", token))
		})
	}
	b.enrolDelegate(t, shown(b.key, "DPoP", b.token))
	shown(thief.key, "DPoP", b.token).want(t, "a stolen task token", 401, "invalid_token")
	shown(b.key, "Bearer", b.token).want(t, "as a bearer token", 401, "invalid_token")
	shown(b.key, "DPoP", b.access(t, canRead)).want(t, "an access token", 401, "invalid_token")
	shown(r.env.Keys[brokertest.Operator], "DPoP", r.apiToken(t, brokertest.Operator)).want(t, "an operator", 401, "invalid_token")
	shown(thief.key, "DPoP", thief.token).want(t, "a task that may not", 400, "unauthorized_client")
}

func TestDelegateHostileForms(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandboxFor(t, delegating())
	for name, c := range map[string]struct {
		more []string
		code string
	}{
		"no scope":            {[]string{"scope", "-"}, "invalid_scope"},
		"wider":               {[]string{"scope", "orders:us/1:read"}, "invalid_scope"},
		"uses no number":      {[]string{"uses", "many"}, "invalid_request"},
		"uses negative":       {[]string{"uses", "-1"}, "invalid_request"},
		"uses huge":           {[]string{"uses", "99999999999999999999"}, "invalid_request"},
		"depth of its own":    {[]string{"depth", "1"}, "invalid_request"},
		"depth negative":      {[]string{"depth", "-1"}, "invalid_request"},
		"expiry zero":         {[]string{"requested_expiry", "0"}, "invalid_request"},
		"selectors no JSON":   {[]string{"selectors", "{"}, "invalid_request"},
		"selectors a list":    {[]string{"selectors", `["a"]`}, "invalid_request"},
		"selectors twice":     {[]string{"selectors", `{"a":"1","a":"2"}`}, "invalid_request"},
		"selectors of number": {[]string{"selectors", `{"a":1}`}, "invalid_request"},
		"selectors and more":  {[]string{"selectors", `{"a":"1"}x`}, "invalid_request"},
		"selectors empty":     {[]string{"selectors", `{"a":""}`}, "invalid_request"},
	} {
		b.delegate(t, canRead, c.more...).want(t, name, 400, c.code)
	}
	r.post(t, "/oauth2/delegate", url.Values{"scope": {canRead}}, b.prove(t)).want(t, "nobody", 401, "invalid_client")
	r.post(t, "/oauth2/delegate", r.client(t, brokertest.Operator, url.Values{"scope": {canRead}}), b.prove(t)).want(t, "an operator's assertion", 401, "invalid_client")
	if got := r.v1(t, brokertest.Operator, http.MethodGet, "/v1/tasks?open=true", nil); len(got.json["items"].([]any)) != 1 {
		t.Errorf("something was opened: %s", got.body)
	}
}
