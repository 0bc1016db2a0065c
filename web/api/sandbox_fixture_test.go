package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// sandbox is a sandbox that enrolled over the wire.
type box struct {
	r      *rig
	key    jose.Signer
	task   string
	client string
	token  string // task token
	jkt    string
}

// spec is a task for the providers orders and mail.
func spec() broker.TaskSpec { s := brokertest.Spec(); return s }

// sandbox opens a task as the runner and enrols a sandbox for it.
func (r *rig) sandbox(t testing.TB) *box { return r.sandboxFor(t, spec()) }

func (r *rig) sandboxFor(t testing.TB, s broker.TaskSpec) *box {
	t.Helper()
	s.Ticket = true
	opened := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", s)
	if opened.status != http.StatusCreated {
		t.Fatalf("opening a task: %d %s", opened.status, opened.body)
	}
	b := &box{r: r, key: brokertest.NewKey(t)}
	var err error
	if b.jkt, err = jose.Thumbprint(b.key.Public()); err != nil {
		t.Fatal(err)
	}
	a := r.enroll(t, b.key, map[string]any{"ticket": opened.text("ticket")})
	if a.status != http.StatusOK {
		t.Fatalf("enrolling: %d %s", a.status, a.body)
	}
	b.task, b.client, b.token = a.text("task_id"), a.text("client_id"), a.text("task_token")
	return b
}

func (r *rig) enroll(t testing.TB, key jose.Signer, body any) *answer {
	t.Helper()
	req := r.request(http.MethodPost, "/v1/enroll", encode(t, body))
	req.Header.Set("Content-Type", "application/json")
	if key != nil {
		req.Header.Set("DPoP", r.proof(t, key, http.MethodPost, "/v1/enroll", ""))
	}
	return r.do(t, req)
}

func encode(t testing.TB, v any) io.Reader {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b)
}

// exchange returns the form of a token exchange with the task token. more sets
// or, with "-", removes parameters.
func (b *box) exchange(scope string, more ...string) url.Values {
	f := url.Values{"grant_type": {grantExchange}, "subject_token": {b.token}, "subject_token_type": {typeTask}, "scope": {scope}}
	return with(f, more...)
}

func with(f url.Values, more ...string) url.Values {
	f = maps.Clone(f)
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] == "-" {
			f.Del(more[i])
			continue
		}
		f[more[i]] = []string{more[i+1]}
	}
	return f
}

// prove adds a fresh proof of the sandbox's key for the token endpoint.
func (b *box) prove(t testing.TB) func(*http.Request) {
	t.Helper()
	return func(req *http.Request) {
		req.Header.Set("DPoP", b.r.proof(t, b.key, req.Method, req.URL.Path, ""))
	}
}

// ask makes an exchange with a proof.
func (b *box) ask(t testing.TB, scope string, more ...string) *answer {
	t.Helper()
	return b.r.post(t, tokenURL, b.exchange(scope, more...), b.prove(t))
}

// access requests a token that policy allows, and must get it.
func (b *box) access(t testing.TB, scope string, more ...string) string {
	t.Helper()
	a := b.ask(t, scope, more...)
	if a.status != http.StatusOK {
		t.Fatalf("asking for %s: %d %s", scope, a.status, a.body)
	}
	return a.text("access_token")
}

// pend requests a scope that needs an approval, and must get a deferral code.
func (b *box) pend(t testing.TB, scope string) *answer {
	t.Helper()
	a := b.ask(t, scope, "completion_mode", "deferred")
	if a.text("error") != "authorization_pending" || a.text("deferral_code") == "" || !strings.HasPrefix(a.text("request_id"), "req_") {
		t.Fatalf("asking for %s: %d %s", scope, a.status, a.body)
	}
	return a
}

func (b *box) poll(t testing.TB, code string) *answer {
	t.Helper()
	return b.r.post(t, tokenURL, url.Values{"grant_type": {grantDeferred}, "deferral_code": {code}}, b.prove(t))
}

// assertion is the sandbox's private_key_jwt.
func (b *box) assertion(t testing.TB) []string {
	t.Helper()
	return []string{"client_assertion_type", assertionType, "client_assertion", b.r.env.Assertion(t, b.client, b.key)}
}
