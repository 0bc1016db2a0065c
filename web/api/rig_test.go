package api_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
	"github.com/ebb-broker/ebb/web/signin/link"
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
	mustAsk  = "orders:eu/42:write" // and requires approval for this
	tokenURL = "/oauth2/token"
)

// options changes the rig; the zero value is a whole server on a whole broker.
type options struct {
	broker  brokertest.Config
	mtls    bool
	proxies []string
	loose   bool // do not compare responses with the API document
	body    int64
	ssh     api.SSHHosts
}

// TestMain registers the media type that the validator does not know.
func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder("application/jsonl", openapi3filter.PlainBodyDecoder)
	os.Exit(m.Run())
}

// rig is a server as cmd builds it, driven without a network.
type rig struct {
	env    *brokertest.Env
	api    *api.API
	mux    *web.Mux
	log    *attesttest.Log
	router routers.Router
	loose  bool
}

func newRig(t testing.TB, o options) *rig {
	t.Helper()
	o.broker.Words.Reversible = append(o.broker.Words.Reversible, "write") // high risk is approved in the console only
	env := brokertest.New(t, o.broker)
	r := &rig{env: env, log: &attesttest.Log{}, loose: o.loose}
	t.Cleanup(func() { // prints warnings and errors of a failed test, because responses omit the causes
		for line := range strings.Lines(r.log.String()) {
			if t.Failed() && (strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`)) {
				t.Log(line)
			}
		}
	})
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
	r.api, err = api.New(api.Config{Broker: r.env.Broker, Mux: r.mux, MutualTLS: o.mtls, Now: r.env.Clock.Now, SSH: o.ssh,
		Links: link.New(link.Config{Broker: r.env.Broker, Base: r.env.Issuer, Key: r.env.Ring.Derive("console-link"), Now: r.env.Clock.Now})})
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
	return r.with(t, r.env.Config)
}

// restarted is the server after a restart, which the embedded LiveStore does not survive.
func (r *rig) restarted(t testing.TB) *rig {
	t.Helper()
	cfg := r.env.Config
	cfg.LiveStore = memstore.New(memstore.Config{Now: r.env.Clock.Now, Steady: r.env.Clock.Steady})
	return r.with(t, cfg)
}

func (r *rig) with(t testing.TB, cfg core.Config) *rig {
	t.Helper()
	cfg.Registerer = nil
	b, err := core.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	env := *r.env
	env.Broker, env.Config, env.Registry = b, cfg, prometheus.NewRegistry()
	other := &rig{env: &env, log: &attesttest.Log{}, loose: r.loose}
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

// do serves a request and compares the response with the API document.
func (r *rig) do(t testing.TB, req *http.Request) *answer {
	t.Helper()
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, req)
	a := &answer{status: w.Code, header: w.Header(), body: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.json)
	r.compare(t, req, a)
	return a
}

// compare checks a response against the document. Methods and paths that are
// not in the document are tested elsewhere.
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

// introspect introspects as the resource server of provider orders.
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

// pendingRequest returns the one request that waits for an approval.
func (r *rig) pendingRequest(t testing.TB) map[string]any {
	t.Helper()
	a := r.v1(t, brokertest.Approver, http.MethodGet, "/v1/requests?state=pending", nil)
	items, _ := a.json["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("want one pending request: %d %s", a.status, a.body)
	}
	return items[0].(map[string]any)
}

// approve approves the one pending request, with changes.
func (r *rig) approve(t testing.TB, more map[string]any) *answer {
	t.Helper()
	p := r.pendingRequest(t)
	body := map[string]any{"digest": p["digest"]}
	maps.Copy(body, more)
	return r.v1(t, brokertest.Approver, http.MethodPost, "/v1/requests/"+p["id"].(string)+"/approve", body)
}

// firstLine removes the schema that the validator prints.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
