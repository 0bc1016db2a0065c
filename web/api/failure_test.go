package api_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/memstore"
)

// faultyRig is a server on real stores that can be made to fail.
func faultyRig(t testing.TB) (*rig, *faults) {
	t.Helper()
	f := &faults{}
	clock := time.Now().UTC().Truncate(time.Second)
	now := func() time.Time { return clock }
	store := brokertest.OpenStore(t, filepath.Join(t.TempDir(), "ebb.db"), now)
	r := newRig(t, options{broker: brokertest.Config{
		Start: clock, LiveStore: faultyLiveStore{memstore.New(memstore.Config{Now: now}), &f.liveStore},
		Store: faultyStore{store, &f.store}, ApprovalStore: faultyApprovalStore{store, &f.approvalStore},
	}})
	return r, f
}

// leaks fails if a response contains internal details or secrets.
func leaks(t testing.TB, what string, a *answer, secrets ...string) {
	t.Helper()
	if a.status < 400 {
		return
	}
	for _, bad := range append([]string{".go:", ".go\"", "sql", "redis", "dial", "goroutine", "/srv/", "10.0.0.5", "hunter2", "github.com/ebb-broker/ebb/broker", "runtime error"}, secrets...) {
		if bad != "" && strings.Contains(a.body, bad) {
			t.Errorf("%s: the body holds %.60q: %s", what, bad, a.body)
		}
	}
}

// everyRoute makes a new valid request for each route.
type everyRoute struct {
	r              *rig
	b              *box
	lease, request string
	api            string // an operator's token
	approver       string
	code           string
	access         string
}

func newEveryRoute(t testing.TB, r *rig) *everyRoute {
	t.Helper()
	e := &everyRoute{r: r, b: r.sandbox(t)}
	a := e.b.ask(t, canRead)
	e.lease, e.access = a.text("lease_id"), a.text("access_token")
	e.code = e.b.pend(t, mustAsk).text("deferral_code")
	e.request = r.pendingRequest(t)["id"].(string)
	e.api, e.approver = r.apiToken(t, brokertest.Operator), r.apiToken(t, brokertest.Approver)
	return e
}

func (e *everyRoute) build(t testing.TB, method, path string) *http.Request {
	t.Helper()
	r := e.r
	form := func(f url.Values) *http.Request {
		req := r.request(method, path, strings.NewReader(f.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("DPoP", r.proof(t, e.b.key, method, path, ""))
		return req
	}
	switch path {
	case tokenURL:
		return form(e.b.exchange(canRead))
	case "/oauth2/bc-authorize":
		return form(with(url.Values{"scope": {"orders:eu/9:write"}, "login_hint": {"x"}}, e.b.assertion(t)...))
	case "/oauth2/introspect":
		return form(r.client(t, brokertest.Server, url.Values{"token": {e.access}}))
	case "/oauth2/revoke":
		return form(with(url.Values{"token": {e.access}}, e.b.assertion(t)...))
	}
	id := e.b.task
	switch {
	case strings.HasPrefix(path, "/v1/leases"):
		id = e.lease
	case strings.HasPrefix(path, "/v1/requests"):
		id = e.request
	case strings.HasPrefix(path, "/problems"):
		id = "conflict"
	}
	at := strings.NewReplacer(":id", id, ":kind", id, ":digest", ownerDigest("bo")).Replace(path)
	bodies := map[string]any{
		"/v1/tasks": spec(), "/v1/enroll": map[string]any{"task_id": e.b.task, "attestor": "enroll", "evidence": e.b.token},
		"/v1/requests/:id/approve": map[string]any{"digest": "00"}, "/v1/requests/:id/deny": map[string]any{"code": "not_needed"},
		"/v1/policy/explain": map[string]any{"query": map[string]any{"sandbox": map[string]any{"id": "a", "attestor": "b"}, "task": map[string]any{"id": "t", "kind": "k", "owner": "o"},
			"scope": canRead, "ttl_seconds": 60, "binding": "dpop", "delivery": "token"}},
		"/v1/tasks/:id/taint": map[string]any{"sources": []string{"web"}},
		"/v1/tasks/:id/pause": map[string]any{"reason": "r"}, "/v1/tasks/:id/stop": map[string]any{"reason": "r"}, "/v1/owners/:digest/stop": map[string]any{"owner": "bo", "reason": "r"}, "/v1/leases/:id/revoke": map[string]any{"reason": "r"},
		"/v1/secrets": map[string]any{"name": "a", "value": "b"},
	}
	req := r.request(method, at, nil)
	if body, has := bodies[path]; has && method == http.MethodPost {
		req = r.request(method, at, encode(t, body))
		req.Header.Set("Content-Type", "application/json")
	}
	if !strings.HasPrefix(path, "/v1/") {
		return req
	}
	if path == "/v1/enroll" {
		req.Header.Set("DPoP", r.proof(t, e.b.key, method, at, ""))
		return req
	}
	token, key := e.api, r.env.Keys[brokertest.Operator]
	if strings.HasSuffix(path, "/approve") || strings.HasSuffix(path, "/deny") {
		token, key = e.approver, r.env.Keys[brokertest.Approver]
	}
	req.Header.Set("Authorization", "DPoP "+token)
	req.Header.Set("DPoP", r.proof(t, key, method, at, token))
	return req
}

// A82a, H60, H63: whichever store fails under whichever route, the response
// contains nothing internal, nothing is minted, no token is reported active,
// and the client is told to wait.
//
//ebb:invariant I6
func TestRFC_A82a_H60_EveryRouteWithFailingStores(t *testing.T) {
	t.Parallel()
	for mode, set := range map[string]func(*faults){
		"live_store":     func(f *faults) { f.liveStore.Store(true) },
		"database":       func(f *faults) { f.store.Store(true) },
		"approval store": func(f *faults) { f.approvalStore.Store(true) },
		"all":            func(f *faults) { f.liveStore.Store(true); f.store.Store(true); f.approvalStore.Store(true) },
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r, f := faultyRig(t)
			e := newEveryRoute(t, r)
			r.env.Clock.Add(2 * time.Second) // after the cache of /readyz
			set(f)
			refused := 0
			for _, route := range r.api.Routes() {
				req := e.build(t, route.Method, route.Path)
				a := r.do(t, req)
				what := mode + ": " + route.Method + " " + route.Path
				leaks(t, what, a, e.b.token, e.api, e.access, e.code, req.Header.Get("DPoP"))
				if a.status >= 500 && a.status != 503 {
					t.Errorf("%s: %d %s", what, a.status, a.body)
				}
				if a.status == 503 {
					refused++
					if a.header.Get("Retry-After") == "" {
						t.Errorf("%s: 503 without Retry-After", what)
					}
				}
				if mode != "approval store" && (a.json["access_token"] != nil || a.json["task_token"] != nil || a.json["active"] == true && mode != "database") {
					t.Errorf("%s: answered as if nothing was wrong: %s", what, a.body)
				}
			}
			if want := map[string]int{"live_store": 8, "database": 10, "approval store": 3, "all": 15}[mode]; refused < want {
				t.Errorf("only %d routes answered 503, want at least %d; does this test still reach the stores?", refused, want)
			}
			for _, sent := range []string{e.b.token, e.api, e.access, e.code} {
				if strings.Contains(r.log.String(), sent) {
					t.Errorf("%s: the log holds a credential", mode)
				}
			}
		})
	}
}

// TestNothingForADoubtfulProof: while it is unknown whether a proof was used
// before, ebb neither makes a sign-in link for it nor returns data.
//
//ebb:invariant I6 A principal whose proof could not be checked for replay can only end tasks and credentials
func TestNothingForADoubtfulProof(t *testing.T) {
	t.Parallel()
	r, f := faultyRig(t)
	token := r.apiToken(t, brokertest.Approver)
	ask := func(method, path string) *answer {
		t.Helper()
		return r.v1With(t, token, r.env.Keys[brokertest.Approver], method, path, nil)
	}
	if a := ask(http.MethodPost, "/v1/signin-link"); a.status != 200 || !strings.HasPrefix(a.text("url"), r.env.Issuer+"/signin/link?t=") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	f.liveStore.Store(true)
	for path, method := range map[string]string{"/v1/signin-link": http.MethodPost, "/v1/policy": http.MethodGet, "/v1/tasks": http.MethodGet} {
		if a := ask(method, path); a.status != 503 || strings.Contains(a.body, "/signin/link") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestReadyzNamesWhatIsDown(t *testing.T) {
	t.Parallel()
	r, f := faultyRig(t)
	f.liveStore.Store(true)
	a := r.do(t, r.request("GET", "/readyz", nil))
	if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `{"name":"live_store","state":"down"}`) || !strings.Contains(a.body, `{"name":"database","state":"up"}`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	leaks(t, "readyz", a)
	if a := r.do(t, r.request("GET", "/livez", nil)); a.status != 200 {
		t.Errorf("livez: %d", a.status)
	}
}

// A failing store never blocks completing a task: the reachable parts refuse
// its credentials at once.
func TestCompleteWithoutLiveStore(t *testing.T) {
	t.Parallel()
	r, f := faultyRig(t)
	b := r.sandbox(t)
	token := b.access(t, canRead)
	who := r.apiToken(t, brokertest.Runner)
	f.liveStore.Store(true)
	a := r.v1With(t, who, r.env.Keys[brokertest.Runner], http.MethodPost, "/v1/tasks/"+b.task+"/complete", nil)
	if a.status != 200 && a.status != 503 {
		t.Errorf("%d %s", a.status, a.body)
	}
	leaks(t, "complete", a)
	f.liveStore.Store(false)
	if r.active(t, token) {
		t.Error("the token is still active")
	}
}

// Invalid input of a client, in any place, is not in the response, the log, the
// metrics or the audit log.
//
//ebb:invariant I8 A decoding error of the API repeats no member name or value that the client sent
//ebb:invariant I8
func TestCanary(t *testing.T) {
	t.Parallel()
	const canary = "hunter2canary"
	r := newRig(t, options{})
	e := newEveryRoute(t, r)
	for _, route := range r.api.Routes() {
		for name, change := range map[string]func(*http.Request){
			"token":        func(req *http.Request) { req.Header.Set("Authorization", "DPoP "+canary) },
			"bearer":       func(req *http.Request) { req.Header.Set("Authorization", "Bearer "+canary) },
			"basic":        func(req *http.Request) { req.Header.Set("Authorization", "Basic "+canary) },
			"proof":        func(req *http.Request) { req.Header.Set("DPoP", canary) },
			"query":        func(req *http.Request) { req.URL.RawQuery = "token=" + canary + "&" + canary + "=1" },
			"cookie":       func(req *http.Request) { req.Header.Set("Cookie", canary) },
			"content type": func(req *http.Request) { req.Header.Set("Content-Type", canary) },
			"other headers": func(req *http.Request) {
				req.Header.Set("X-Forwarded-For", canary)
				req.Header.Set("User-Agent", canary)
			},
		} {
			req := e.build(t, route.Method, route.Path)
			change(req)
			a := r.do(t, req)
			leaks(t, route.Path+" "+name, a, canary)
		}
		for _, body := range []string{canary, `{"` + canary + `":1}`, `{"reason":"` + canary + `"} x`, "grant_type=" + canary, "token=%zz" + canary,
			"grant_type=" + grantExchange + "&subject_token=" + canary + "&subject_token_type=" + typeTask + "&scope=" + canary,
			"grant_type=" + grantJWTBearer + "&assertion=" + canary, "client_assertion=" + canary + "&client_assertion_type=" + assertionType + "&token=" + canary,
			"grant_type=" + grantDeferred + "&deferral_code=" + canary, "client_id=" + canary + "&client_secret=" + canary} {
			for _, ct := range []string{"application/json", "application/x-www-form-urlencoded"} {
				if route.Method == http.MethodGet {
					continue
				}
				req := e.build(t, route.Method, route.Path)
				fresh := r.request(route.Method, req.URL.Path, strings.NewReader(body))
				fresh.Header = req.Header.Clone()
				fresh.Header.Set("Content-Type", ct)
				leaks(t, route.Path+" "+body, r.do(t, fresh), canary)
			}
		}
	}
	if i := strings.Index(r.log.String(), canary); i >= 0 {
		t.Errorf("the log holds the canary: %s", r.log.String()[max(0, i-400):i+40])
	}
	metrics := r.do(t, r.request("GET", "/metrics", nil))
	if strings.Contains(metrics.body, canary) {
		t.Error("metrics hold the canary")
	}
	export := r.v1(t, brokertest.Auditor, http.MethodGet, "/v1/audit?format=jsonl", nil)
	if export.status != 200 {
		t.Fatalf("%d %s", export.status, export.body)
	}
	for _, sent := range []string{e.b.token, e.api, e.access, e.code, canary + `"`} {
		if i := strings.Index(export.body, sent); i >= 0 && !strings.Contains(export.body[max(0, i-40):i], `"reason"`) {
			t.Errorf("the record holds %.20q: %s", sent, export.body[max(0, i-200):i+20])
		}
	}
}
