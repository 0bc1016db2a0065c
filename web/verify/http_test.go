package verify_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
	"github.com/ebb-broker/ebb/web/verify/echoverify"
)

const metadataURL = "https://orders.test/.well-known/oauth-protected-resource/api"

func TestChallenges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	const tail = `, algs="ES256 EdDSA Ed25519", resource_metadata="` + metadataURL + `"`
	raw := w.token(nil)
	for name, tc := range map[string]struct {
		request *http.Request
		status  int
		want    string
	}{
		"A54 no credentials": {httptest.NewRequest("GET", base+path, nil), 401, `DPoP realm="` + resource + `"` + tail},
		"A54, A66 bad token": {w.request("abc"), 401, `DPoP realm="` + resource + `", error="invalid_token", error_description="The token is not three base64url parts."` + tail},
		"A52 bad proof":      {func() *http.Request { r := w.request(raw); r.Header.Del("DPoP"); return r }(), 401, `DPoP realm="` + resource + `", error="invalid_dpop_proof", error_description="A DPoP proof is required."` + tail},
		"A110 scope": {w.request(w.token(with("scope", "orders:eu/43:read"))), 403, `DPoP realm="` + resource +
			`", error="insufficient_scope", error_description="The scope of the access token does not cover this request.", scope="orders:eu/42:read"` + tail},
		"A56 two headers": {func() *http.Request { r := w.request(raw); r.Header.Add("Authorization", "Bearer x"); return r }(), 400,
			`DPoP realm="` + resource + `", error="invalid_request", error_description="Send one Authorization header."` + tail},
	} {
		rec := httptest.NewRecorder()
		v.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: let through", name) })).ServeHTTP(rec, tc.request)
		if rec.Code != tc.status || rec.Header().Get("WWW-Authenticate") != tc.want {
			t.Errorf("%s: %d\n got %s\nwant %s", name, rec.Code, rec.Header().Get("WWW-Authenticate"), tc.want)
		}
		var problem struct{ Status int }
		if err := json.Unmarshal(rec.Body.Bytes(), &problem); err != nil || problem.Status != tc.status || rec.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: body %s", name, rec.Body)
		}
	}
	stale := w.verifier(w.config())
	rec := httptest.NewRecorder()
	stale.Middleware(http.NotFoundHandler()).ServeHTTP(rec, w.request(raw))
	if rec.Code != 503 || rec.Header().Get("Retry-After") == "" || rec.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("stale: %d %v", rec.Code, rec.Header())
	}
}

// A 401 and the metadata list the scopes to request; a 403 lists those that
// this request needs.
func TestScopesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	cfg := w.config()
	cfg.Scopes = scopes.MustParseSet("orders:eu/**:read orders:eu/**:write")
	v := w.running(cfg)
	refused := func(r *http.Request) (int, string) {
		rec := httptest.NewRecorder()
		v.Middleware(http.NotFoundHandler()).ServeHTTP(rec, r)
		return rec.Code, rec.Header().Get("WWW-Authenticate")
	}
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		scope   string
	}{
		"no credentials": {httptest.NewRequest("GET", base+path, nil), 401, cfg.Scopes.String()},
		"a bad token":    {w.request("abc"), 401, cfg.Scopes.String()},
		"another scope":  {w.request(w.token(with("scope", "orders:eu/43:read"))), 403, need.String()},
		"two headers":    {func() *http.Request { r := w.request("x"); r.Header.Add("Authorization", "Bearer x"); return r }(), 400, ""},
	} {
		status, challenge := refused(c.request)
		if got := strings.Contains(challenge, "scope="); status != c.status || got != (c.scope != "") || !strings.Contains(challenge, `scope="`+c.scope) && c.scope != "" {
			t.Errorf("%s: %d %s, want %d and scope %q", name, status, challenge, c.status, c.scope)
		}
	}
	for want, v := range map[string]*verify.Verifier{`"scopes_supported":["orders:eu/**:read","orders:eu/**:write"]`: v, "": w.verifier(w.config())} {
		rec := httptest.NewRecorder()
		v.Metadata().ServeHTTP(rec, httptest.NewRequest("GET", v.MetadataPath(), nil))
		if got := strings.Contains(rec.Body.String(), "scopes_supported"); got != (want != "") || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("metadata %s, want %s", rec.Body, want)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	for name, tc := range map[string]struct {
		need func(*http.Request) (scopes.Set, error)
		have string
		want string
	}{
		"covered":             {func(*http.Request) (scopes.Set, error) { return need, nil }, "orders:eu/**:*", "200"},
		"other action":        {func(*http.Request) (scopes.Set, error) { return need, nil }, "orders:eu/42:write", "403 insufficient_scope"},
		"none":                {func(*http.Request) (scopes.Set, error) { return need, nil }, "", "403 insufficient_scope"},
		"zero value denies":   {func(*http.Request) (scopes.Set, error) { return scopes.Set{}, nil }, "orders:**:*", "403 insufficient_scope"},
		"cannot say":          {func(*http.Request) (scopes.Set, error) { return scopes.Set{}, errors.New("secret cause") }, "orders:**:*", "500"},
		"nothing is required": {nil, "orders:x:read", "200"},
	} {
		cfg := w.config()
		cfg.RequireScopes, cfg.AnyScope = tc.need, tc.need == nil
		v := w.running(cfg)
		var scope any
		if tc.have != "" {
			scope = tc.have
		}
		r := w.request(w.token(with("scope", scope)))
		_, err := v.Verify(r)
		if fault(err) != tc.want {
			t.Errorf("%s: %s, want %s", name, fault(err), tc.want)
		}
		if err != nil {
			rec := httptest.NewRecorder()
			v.WriteError(rec, err)
			if strings.Contains(rec.Body.String()+rec.Header().Get("WWW-Authenticate"), "secret cause") {
				t.Errorf("%s: the cause is on the wire", name)
			}
		}
	}
}

// A57: RFC 8705.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	mine, other := []byte("my certificate"), []byte("another")
	sum := sha256.Sum256(mine)
	raw := w.token(with("cnf", map[string]any{"x5t#S256": b64(sum[:])}))
	for name, tc := range map[string]struct {
		cert   []byte
		scheme string
		want   string
	}{
		"good":           {mine, "Bearer", "200"},
		"other":          {other, "Bearer", "401 invalid_token"},
		"none":           {nil, "Bearer", "401 invalid_token"},
		"scheme DPoP":    {mine, "DPoP", "401 invalid_token"},
		"header instead": {nil, "Bearer", "401 invalid_token"},
	} {
		r := w.request(raw)
		r.Header.Set("Authorization", tc.scheme+" "+raw)
		r.Header.Set("Client-Cert", ":bXkgY2VydGlmaWNhdGU=:")
		r.TLS = &tls.ConnectionState{}
		if tc.cert != nil {
			r.TLS.PeerCertificates = []*x509.Certificate{{Raw: tc.cert}}
		}
		_, err := v.Verify(r)
		if fault(err) != tc.want {
			t.Errorf("%s: %s (%v), want %s", name, fault(err), err, tc.want)
		}
		if e, ok := errors.AsType[*verify.Error](err); ok && !strings.HasPrefix(v.Challenge(e), "Bearer ") {
			t.Errorf("%s: challenge %s", name, v.Challenge(e))
		}
	}
	r := w.request(raw)
	r.TLS = nil
	if _, err := v.Verify(r); err == nil {
		t.Error("a plain connection passed for mTLS")
	}
}

// A45-A47 at the resource server.
func TestNonces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	nonces, err := dpop.NewNonces(make([]byte, 32), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cfg := w.config()
	cfg.Nonces = nonces
	v := w.running(cfg)
	raw := w.token(nil)
	send := func(nonce string) *httptest.ResponseRecorder {
		r := w.request(raw)
		p, err := dpop.NewProof(w.key, "GET", base+path, raw, nonce, w.now())
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("DPoP", p)
		rec := httptest.NewRecorder()
		v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })).ServeHTTP(rec, r)
		return rec
	}
	first := send("")
	fresh := first.Header().Values("DPoP-Nonce")
	if first.Code != 401 || !strings.Contains(first.Header().Get("WWW-Authenticate"), `error="use_dpop_nonce"`) || len(fresh) != 1 {
		t.Fatalf("without a nonce: %d %v", first.Code, first.Header())
	}
	if rec := send(fresh[0]); rec.Code != 204 || len(rec.Header().Values("DPoP-Nonce")) != 1 {
		t.Errorf("with it: %d %v", rec.Code, rec.Header())
	}
	if rec := send("stale-or-foreign"); rec.Code != 401 {
		t.Errorf("with another: %d", rec.Code)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.verifier(w.config())
	if v.MetadataPath() != "/.well-known/oauth-protected-resource/api" {
		t.Errorf("path %s", v.MetadataPath())
	}
	rec := httptest.NewRecorder()
	v.Metadata().ServeHTTP(rec, httptest.NewRequest("GET", metadataURL, nil))
	const want = `{"resource":"https://orders.test/api","authorization_servers":["https://ebb.test"],"bearer_methods_supported":["header"],"dpop_signing_alg_values_supported":["ES256","EdDSA","Ed25519"],"tls_client_certificate_bound_access_tokens":true}`
	if rec.Code != 200 || rec.Body.String() != want || rec.Header().Get("Content-Type") != "application/json" {
		t.Errorf("A100: %d %s", rec.Code, rec.Body)
	}
	rec = httptest.NewRecorder()
	v.Metadata().ServeHTTP(rec, httptest.NewRequest("POST", metadataURL, nil))
	if rec.Code != 405 {
		t.Errorf("POST: %d", rec.Code)
	}
	for res, want := range map[string]string{
		"https://orders.test":  "/.well-known/oauth-protected-resource",
		"https://orders.test/": "/.well-known/oauth-protected-resource",
	} {
		cfg := w.config()
		cfg.Resource = res
		if got := w.verifier(cfg).MetadataPath(); got != want {
			t.Errorf("%s: %s", res, got)
		}
	}
}

func TestHandlers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	e := echo.New()
	e.Use(echoverify.Middleware(v))
	e.GET(path, func(c echo.Context) error { return c.String(200, echoverify.TokenOf(c).TaskID) })
	plain := v.Handler(func(w http.ResponseWriter, _ *http.Request, t *verify.Token) { _, _ = w.Write([]byte(t.TaskID)) })
	for name, h := range map[string]http.Handler{"echo": e, "net/http": plain} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, w.request(w.token(nil)))
		if rec.Code != 200 || rec.Body.String() != "tsk_1" {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		rec = httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", base+path, nil))
		if rec.Code != 401 || rec.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %v", name, rec.Code, rec.Header())
		}
	}
	if echoverify.TokenOf(e.NewContext(nil, nil)) != nil {
		t.Error("a token outside of the middleware")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	for name, change := range map[string]func(*verify.Config){
		"no issuer":         func(c *verify.Config) { c.Issuer = "" },
		"plain issuer":      func(c *verify.Config) { c.Issuer = "http://ebb.test" },
		"plain issuer URL":  func(c *verify.Config) { c.IssuerURL = "http://10.0.0.1" },
		"issuer query":      func(c *verify.Config) { c.Issuer = "https://ebb.test?x" },
		"no resource":       func(c *verify.Config) { c.Resource = "" },
		"plain public URL":  func(c *verify.Config) { c.PublicURL = "http://orders.test" },
		"no scopes":         func(c *verify.Config) { c.RequireScopes = nil },
		"both scopes":       func(c *verify.Config) { c.AnyScope = true },
		"no key":            func(c *verify.Config) { c.Key = nil },
		"no name":           func(c *verify.Config) { c.ClientID = "" },
		"short staleness":   func(c *verify.Config) { c.MaxStaleness = time.Second },
		"negative limit":    func(c *verify.Config) { c.MaxRevoked = -1 },
		"unknown alg":       func(c *verify.Config) { c.Algs = append(c.Algs, "none") },
		"unknown proof alg": func(c *verify.Config) { c.DPoPAlgs = append(c.DPoPAlgs, "HS256") },
	} {
		cfg := w.config()
		change(&cfg)
		if _, err := verify.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	_, err := verify.New(verify.Config{})
	if err == nil || strings.Count(err.Error(), "verify:") < 4 {
		t.Errorf("not all faults at once: %v", err)
	}
}

// FuzzVerify: only the one valid request passes.
func FuzzVerify(f *testing.F) {
	w := newWorld(f, time.Now)
	w.maxAge = 0
	cfg := w.config()
	cfg.MaxStaleness = time.Hour
	v := w.verifier(cfg)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.Run(ctx) }()
	for v.Ready() != nil && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel() // read once, without a background loop
	<-ended
	if err := v.Ready(); err != nil {
		f.Fatal(err)
	}
	good := w.token(nil)
	f.Add("DPoP "+good, w.proof("GET", base+path, good), "")
	f.Add("Bearer "+good, "", "q=1")
	f.Add("DPoP a.b.c", "a.b.c", "access_token=x")
	f.Fuzz(func(t *testing.T, auth, proof, query string) {
		r := httptest.NewRequest("GET", base+path, nil)
		r.URL.RawQuery = query
		r.Header["Authorization"], r.Header["Dpop"] = []string{auth}, []string{proof}
		tok, err := v.Verify(r)
		if err == nil && tok.LeaseID != "lse_1" {
			t.Errorf("passed: %q", auth)
		}
		if err != nil {
			rec := httptest.NewRecorder()
			v.WriteError(rec, err)
			if rec.Code < 400 {
				t.Errorf("%v answered %d", err, rec.Code)
			}
		}
	})
}
