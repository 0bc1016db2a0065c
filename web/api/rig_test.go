package api_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/scopes"
	"ebb/web"
	"ebb/web/api"
)

const (
	grantExchange    = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantJWTBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantCredentials = "client_credentials"
	grantDeferred    = "urn:ietf:params:oauth:grant-type:deferred"
	grantCIBA        = "urn:openid:params:grant-type:ciba"
	typeTask         = "urn:ebb:params:oauth:token-type:task"
	typeAccess       = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT          = "urn:ietf:params:oauth:token-type:jwt"
	typeIDToken      = "urn:ietf:params:oauth:token-type:id_token"
	assertionType    = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

	canRead  = "orders:eu/42:read"  // the starter policy allows it
	mustAsk  = "orders:eu/42:write" // and asks a person for this
	tokenURL = "/oauth2/token"
)

// options change the rig; the zero value is a whole server on a whole broker.
type options struct {
	broker  brokertest.Config
	mcp     bool
	mtls    bool
	proxies []string
	loose   bool // do not compare answers with the API document
	body    int64
}

// TestMain teaches the validator the one media type it does not know.
func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder("application/jsonl", openapi3filter.PlainBodyDecoder)
	os.Exit(m.Run())
}

// rig is a server as cmd builds it, driven without a network.
type rig struct {
	env    *brokertest.Env
	api    *api.API
	mux    *web.Mux
	log    *syncBuffer
	router routers.Router
	loose  bool
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newRig(t testing.TB, o options) *rig {
	t.Helper()
	env := brokertest.New(t, o.broker)
	r := &rig{env: env, log: &syncBuffer{}, loose: o.loose}
	r.serve(t, o)
	return r
}

func (r *rig) serve(t testing.TB, o options) {
	t.Helper()
	trusted, err := web.ParseProxies(o.proxies)
	if err != nil {
		t.Fatal(err)
	}
	r.mux, err = web.New(web.Config{
		PublicURL: r.env.Issuer, Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: r.env.Registry, Now: r.env.Clock.Now, Proxies: trusted, Limits: web.Limits{Body: o.body},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.api, err = api.New(api.Config{Broker: r.env.Broker, Mux: r.mux, MCPCompat: o.mcp, MutualTLS: o.mtls, Now: r.env.Clock.Now,
		Policies: func() []api.PolicyFile {
			return []api.PolicyFile{{Name: "starter.cedar", Text: "permit(principal, action, resource);"}}
		}})
	if err != nil {
		t.Fatal(err)
	}
	r.api.Register()
	r.api.RegisterProbes(r.mux, promhttp.HandlerFor(r.env.Registry, promhttp.HandlerOpts{}))
	if r.router, err = gorillamux.NewRouter(document(t)); err != nil {
		t.Fatal(err)
	}
}

// replica is a second server on the same stores and keys.
func (r *rig) replica(t testing.TB) *rig {
	t.Helper()
	cfg := r.env.Config
	cfg.Registerer = nil
	b, err := broker.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	env := *r.env
	env.Broker, env.Registry = b, prometheus.NewRegistry()
	other := &rig{env: &env, log: &syncBuffer{}, loose: r.loose}
	other.serve(t, options{})
	return other
}

func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// answer is one response, read.
type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any // nil when the body is not a JSON object
}

func (a *answer) text(name string) string { s, _ := a.json[name].(string); return s }

func (a *answer) number(name string) float64 { f, _ := a.json[name].(float64); return f }

// do serves a request and compares the answer with the API document.
func (r *rig) do(t testing.TB, req *http.Request) *answer {
	t.Helper()
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, req)
	a := &answer{status: w.Code, header: w.Header(), body: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.json)
	r.compare(t, req, a)
	return a
}

// compare checks an answer against the document. Methods and paths that the
// document does not have are the router's business.
func (r *rig) compare(t testing.TB, req *http.Request, a *answer) {
	t.Helper()
	if r.loose {
		return
	}
	route, params, err := r.router.FindRoute(req)
	if err != nil {
		return
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(strings.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), in); err != nil {
		t.Errorf("%s %s: the answer %d is not as documented: %s\n%.300s", req.Method, req.URL.Path, a.status, firstLine(err), a.body)
	}
}

// request makes a request to this server's public URL.
func (r *rig) request(method, path string, body io.Reader) *http.Request {
	req := httptest.NewRequest(method, r.env.Issuer+path, body)
	req.RemoteAddr = "192.0.2.1:1234"
	return req
}

// header sets one header value of a request.
func header(name, value string) func(*http.Request) {
	return func(req *http.Request) { req.Header.Set(name, value) }
}

// post sends a form.
func (r *rig) post(t testing.TB, path string, form url.Values, mods ...func(*http.Request)) *answer {
	t.Helper()
	return r.postRaw(t, path, form.Encode(), mods...)
}

func (r *rig) postRaw(t testing.TB, path, body string, mods ...func(*http.Request)) *answer {
	t.Helper()
	req := r.request(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, m := range mods {
		m(req)
	}
	return r.do(t, req)
}

// proof makes a DPoP proof.
func (r *rig) proof(t testing.TB, key jose.Signer, method, path, token string) string {
	t.Helper()
	p, err := dpop.NewProof(key, method, r.env.Issuer+path, token, "", r.env.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// box is a sandbox that enrolled over the wire.
type box struct {
	r      *rig
	key    jose.Signer
	task   string
	client string
	token  string // task token
	jkt    string
}

// spec is a task for provider orders and mail.
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

// exchange is the form of a token exchange with the task token; more sets or,
// with "-", removes parameters.
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

// ask is an exchange with a proof.
func (b *box) ask(t testing.TB, scope string, more ...string) *answer {
	t.Helper()
	return b.r.post(t, tokenURL, b.exchange(scope, more...), b.prove(t))
}

// access asks for a token that policy allows, and must get it.
func (b *box) access(t testing.TB, scope string, more ...string) string {
	t.Helper()
	a := b.ask(t, scope, more...)
	if a.status != http.StatusOK {
		t.Fatalf("asking for %s: %d %s", scope, a.status, a.body)
	}
	return a.text("access_token")
}

// pend asks for what needs a person, and must get a deferral code.
func (b *box) pend(t testing.TB, scope string) *answer {
	t.Helper()
	a := b.ask(t, scope, "completion_mode", "deferred")
	if a.text("error") != "authorization_pending" || a.text("deferral_code") == "" {
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

// client adds a principal's private_key_jwt to a form.
func (r *rig) client(t testing.TB, who string, f url.Values) url.Values {
	t.Helper()
	return with(f, "client_assertion_type", assertionType, "client_assertion", r.env.Assertion(t, who, r.env.Keys[who]))
}

// apiToken gets a principal's access token for /v1.
func (r *rig) apiToken(t testing.TB, who string) string {
	t.Helper()
	a := r.post(t, tokenURL, r.client(t, who, url.Values{"grant_type": {grantCredentials}}),
		header("DPoP", r.proof(t, r.env.Keys[who], http.MethodPost, tokenURL, "")))
	if a.status != http.StatusOK {
		t.Fatalf("a token for %s: %d %s", who, a.status, a.body)
	}
	return a.text("access_token")
}

// v1 calls the JSON API as a principal. A nil body sends none.
func (r *rig) v1(t testing.TB, who, method, path string, body any, mods ...func(*http.Request)) *answer {
	t.Helper()
	return r.v1With(t, r.apiToken(t, who), r.env.Keys[who], method, path, body, mods...)
}

func (r *rig) v1With(t testing.TB, token string, key jose.Signer, method, path string, body any, mods ...func(*http.Request)) *answer {
	t.Helper()
	var in io.Reader
	if body != nil {
		in = encode(t, body)
	}
	req := r.request(method, path, in)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "DPoP "+token)
	req.Header.Set("DPoP", r.proof(t, key, method, req.URL.EscapedPath(), token))
	for _, m := range mods {
		m(req)
	}
	return r.do(t, req)
}

// introspect asks as the resource server of provider orders.
func (r *rig) introspect(t testing.TB, token string) *answer {
	t.Helper()
	return r.post(t, "/oauth2/introspect", r.client(t, brokertest.Server, url.Values{"token": {token}}))
}

func (r *rig) active(t testing.TB, token string) bool {
	t.Helper()
	a := r.introspect(t, token)
	if a.status != http.StatusOK {
		t.Fatalf("introspecting: %d %s", a.status, a.body)
	}
	return a.json["active"] == true
}

// pendingRequest is the one request that waits for a person.
func (r *rig) pendingRequest(t testing.TB) map[string]any {
	t.Helper()
	a := r.v1(t, brokertest.Approver, http.MethodGet, "/v1/requests?state=pending", nil)
	items, _ := a.json["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("want one pending request: %d %s", a.status, a.body)
	}
	return items[0].(map[string]any)
}

// approve says yes to the one pending request, with changes.
func (r *rig) approve(t testing.TB, more map[string]any) *answer {
	t.Helper()
	p := r.pendingRequest(t)
	body := map[string]any{"digest": p["digest"]}
	maps.Copy(body, more)
	return r.v1(t, brokertest.Approver, http.MethodPost, "/v1/requests/"+p["id"].(string)+"/approve", body)
}

// want checks an OAuth error answer, and what every one must have.
func (a *answer) want(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.text("error") != code {
		t.Errorf("%s: got %d %s, want %d %s", what, a.status, a.body, status, code)
	}
	if a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: Content-Type %q, Cache-Control %q (A7)", what, a.header.Get("Content-Type"), a.header.Get("Cache-Control"))
	}
	if d := a.text("error_description"); d == "" || d != web.Description(d) {
		t.Errorf("%s: error_description %q", what, d)
	}
}

// problem checks a problem document.
func (a *answer) problem(t testing.TB, what string, status int, kind string) {
	t.Helper()
	if a.status != status || a.text("type") != brokertest.Issuer+"/problems/"+kind || a.number("status") != float64(status) {
		t.Errorf("%s: got %d %s, want %d %s", what, a.status, a.body, status, kind)
	}
	if a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: Content-Type %q", what, a.header.Get("Content-Type"))
	}
}

// claims reads a token's claims without verifying them.
func claims(t testing.TB, token string) (head, body map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a compact JWS: %d parts", len(parts))
	}
	for i, into := range []*map[string]any{&head, &body} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	return head, body
}

// forge signs any header and claims with a P-256 key.
func forge(t testing.TB, key jose.Signer, head, body map[string]any) string {
	t.Helper()
	h, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return forgeRaw(t, key, string(h), string(b))
}

// proofClaims are those of a good proof for the token endpoint.
func (r *rig) proofClaims() map[string]any {
	return map[string]any{"jti": rand.Text(), "htm": "POST", "htu": r.env.Issuer + tokenURL, "iat": r.env.Clock.Now().Unix()}
}

func set(text string) scopes.Set { return scopes.MustParseSet(text) }

const minute = time.Minute

// firstLine drops the schema that the validator prints.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
