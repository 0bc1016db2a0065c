package api_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/spiffe"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web"
)

const (
	assertionSPIFFE = "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"
	svid42          = "spiffe://sbx.test/sandbox/42"
	svid43          = "spiffe://sbx.test/sandbox/43"
)

// spire is a trust domain and its attestor.
type spire struct {
	ca     *x509.Certificate
	caKey  jose.Signer
	jwtKey jose.Signer
	now    time.Time
	att    attest.Attestor
}

func newSpire(t testing.TB, now time.Time, svids ...string) *spire {
	t.Helper()
	s := &spire{caKey: brokertest.NewKey(t), jwtKey: brokertest.NewKey(t), now: now}
	s.ca = s.issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, s.caKey)
	x, j := attesttest.PublicJWK(t, s.caKey), attesttest.PublicJWK(t, s.jwtKey)
	x["use"], x["x5c"] = "x509-svid", []string{base64.StdEncoding.EncodeToString(s.ca.Raw)}
	j["use"], j["kid"] = "jwt-svid", "j1"
	text, err := json.Marshal(map[string]any{"keys": []any{x, j}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "bundle.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.att, err = spiffe.New(spiffe.Config{Name: "boxes", Audience: brokertest.Issuer, SVIDs: svids, Now: func() time.Time { return now },
		TrustDomains: map[string]spiffe.TrustDomain{"sbx.test": {BundleFile: name, Allow: []string{"/sandbox/*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *spire) issue(t testing.TB, tmpl *x509.Certificate, key jose.Signer) *x509.Certificate {
	t.Helper()
	parent := s.ca
	if parent == nil {
		parent = tmpl
	}
	var err error
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<60)); err != nil {
		t.Fatal(err)
	}
	tmpl.NotBefore, tmpl.NotAfter = s.now.Add(-time.Minute), s.now.Add(10*time.Minute)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), s.caKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// x509 is an X.509-SVID.
func (s *spire) x509(t testing.TB, id string, key jose.Signer) *x509.Certificate {
	t.Helper()
	u, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return s.issue(t, &x509.Certificate{URIs: []*url.URL{u}, KeyUsage: x509.KeyUsageDigitalSignature}, key)
}

// jwt is a JWT-SVID.
func (s *spire) jwt(t testing.TB, id string, more map[string]any) string {
	t.Helper()
	c := map[string]any{"sub": id, "aud": []string{brokertest.Issuer}, "iat": s.now.Unix(), "exp": s.now.Add(5 * time.Minute).Unix(), "n": rand.Text()}
	maps.Copy(c, more)
	return attesttest.Forge(t, s.jwtKey, map[string]any{"alg": "ES256", "kid": "j1", "typ": "JWT"}, c)
}

// spireRig is a server that expects sandbox 42 of a trust domain, for a task.
func spireRig(t testing.TB, o options, svids ...string) (*rig, *spire, func(id string) *box) {
	t.Helper()
	start := time.Now().UTC().Truncate(time.Second)
	s := newSpire(t, start, svids...)
	idp := newIDP(t, func() time.Time { return start })
	o.broker = brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"boxes": s.att, "idp": idp.att}}
	r := newRig(t, o)
	return r, s, func(id string) *box {
		t.Helper()
		want := broker.Expect{Attestor: "boxes", Selectors: map[string]string{"spiffe_id": id}}
		if id == "" {
			want = broker.Expect{Attestor: "idp", Selectors: map[string]string{"repo": "acme/web"}}
		}
		spec := spec()
		spec.Ticket, spec.Expect = false, want
		a := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", spec)
		task, _ := a.json["task"].(map[string]any)
		if task == nil {
			t.Fatalf("opening a task: %d %s", a.status, a.body)
		}
		return &box{r: r, key: brokertest.NewKey(t), task: task["id"].(string)}
	}
}

func (b *box) credentials(assertion string, more ...string) url.Values {
	return with(url.Values{"grant_type": {grantCredentials}, "client_assertion_type": {assertionSPIFFE}, "client_assertion": {assertion},
		"task_id": {b.task}, "scope": {canRead}}, more...)
}

// A JWT-SVID as client assertion of its own type is evidence of the sandbox.
func TestRFC_A90_A92_A95_JWTSVIDClientAuthentication(t *testing.T) {
	t.Parallel()
	r, s, open := spireRig(t, options{})
	b := open(svid42)
	good := s.jwt(t, svid42, nil)
	for _, more := range [][]string{nil, {"client_id", svid42}} { // an agent gives the same one again
		a := r.post(t, tokenURL, b.credentials(good, more...), b.prove(t))
		if a.status != 200 || a.text("token_type") != "DPoP" {
			t.Fatalf("%v: %d %s", more, a.status, a.body)
		}
		if _, c := claims(t, a.text("access_token")); c["exp"].(float64) > float64(s.now.Add(5*time.Minute).Unix()) {
			t.Error("the token outlives the SVID")
		}
	}
	thief := &box{r: r, key: brokertest.NewKey(t)}
	r.post(t, tokenURL, b.credentials(good), thief.prove(t)).want(t, "replayed with another key", 401, "invalid_client")
	r.post(t, tokenURL, b.credentials(s.jwt(t, svid42, nil)), thief.prove(t)).want(t, "a second sandbox with one registration", 401, "invalid_client")
	r.post(t, tokenURL, b.credentials(good, "client_id", svid43), b.prove(t)).want(t, "A92 another client_id", 401, "invalid_client")
	r.post(t, tokenURL, b.credentials(good, "task_id", "-"), b.prove(t)).want(t, "no task", 401, "invalid_client")
	r.post(t, tokenURL, b.credentials(good), func(*http.Request) {}).want(t, "no proof", 400, "invalid_dpop_proof")
	for name, token := range map[string]string{
		"another sandbox":      s.jwt(t, svid43, nil),
		"A90 token endpoint":   s.jwt(t, svid42, map[string]any{"aud": brokertest.Issuer + tokenURL}),
		"A90 two audiences":    s.jwt(t, svid42, map[string]any{"aud": []string{brokertest.Issuer, "https://other.test"}}),
		"A91 no expiry":        s.jwt(t, svid42, map[string]any{"exp": 0}),
		"A95 key of the CA":    attesttest.Forge(t, s.caKey, map[string]any{"alg": "ES256", "kid": "j1"}, map[string]any{"sub": svid42, "aud": brokertest.Issuer, "exp": s.now.Add(time.Minute).Unix()}),
		"no SVID":              r.env.Assertion(t, brokertest.Operator, r.env.Keys[brokertest.Operator]),
		"garbage":              "a.b.c",
		"A96 no SPIFFE ID":     s.jwt(t, "spiffe://SBX.test/sandbox/42", nil),
		"another trust domain": s.jwt(t, "spiffe://other.test/sandbox/42", nil),
	} {
		r.post(t, tokenURL, b.credentials(token), b.prove(t)).want(t, name, 401, "invalid_client")
	}
	// An assertion must have the type that the client gives: the attestor of
	// this task accepts no SVIDs.
	other := open("")
	r.post(t, tokenURL, other.credentials(good), other.prove(t)).want(t, "for a task of another attestor", 401, "invalid_client")
	r.post(t, "/oauth2/introspect", url.Values{"client_assertion_type": {assertionSPIFFE}, "client_assertion": {good}, "token": {"x"}}).
		want(t, "a sandbox is no resource server", 401, "invalid_client")
}

// A request that needs an approval, made and polled with SVIDs.
func TestJWTSVIDWaits(t *testing.T) {
	t.Parallel()
	r, s, open := spireRig(t, options{})
	b := open(svid42)
	asked := r.post(t, tokenURL, b.credentials(s.jwt(t, svid42, nil), "scope", mustAsk, "completion_mode", "deferred"), b.prove(t))
	code := asked.text("deferral_code")
	if code == "" {
		t.Fatalf("%d %s", asked.status, asked.body)
	}
	r.approve(t, nil)
	poll := func(id string) url.Values {
		return url.Values{"grant_type": {grantDeferred}, "deferral_code": {code}, "client_assertion_type": {assertionSPIFFE}, "client_assertion": {s.jwt(t, id, nil)}}
	}
	r.post(t, tokenURL, poll(svid43), b.prove(t)).want(t, "another sandbox polls", 401, "invalid_client")
	r.env.Clock.Add(30 * time.Second)
	if a := r.post(t, tokenURL, poll(svid42), b.prove(t)); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Methods are advertised where they work, and refused elsewhere.
func TestRFC_A99_SVIDMethods(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		svids []string
		mtls  bool
		want  []string
	}{
		{nil, false, []string{"spiffe_jwt"}}, {nil, true, []string{"spiffe_jwt", "spiffe_x509"}}, {[]string{"x509"}, false, nil}, {[]string{"x509"}, true, []string{"spiffe_x509"}},
	} {
		r, s, open := spireRig(t, options{mtls: tc.mtls}, tc.svids...)
		a := r.do(t, r.request(http.MethodGet, "/.well-known/oauth-authorization-server", nil))
		var got []string
		for _, m := range a.json["token_endpoint_auth_methods_supported"].([]any) {
			if strings.HasPrefix(m.(string), "spiffe") {
				got = append(got, m.(string))
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v: advertised %v", tc, got)
		}
		b := open(svid42)
		if a := r.post(t, tokenURL, b.credentials(s.jwt(t, svid42, nil)), b.prove(t)); (a.status == 200) != slices.Contains(got, "spiffe_jwt") {
			t.Errorf("%v: %d %s", tc, a.status, a.body)
		}
	}
	bare := newRig(t, options{mtls: true})
	if a := bare.do(t, bare.request(http.MethodGet, "/.well-known/oauth-authorization-server", nil)); strings.Contains(a.body, "spiffe") {
		t.Errorf("without an attestor: %s", a.body)
	}
	b := bare.sandbox(t)
	bare.post(t, tokenURL, b.credentials("a.b.c"), b.prove(t)).want(t, "without an attestor", 401, "invalid_client")
}

// The client certificate alone is the evidence, and the issued token is bound
// to it.
func TestX509SVIDClientAuthentication(t *testing.T) {
	t.Parallel()
	r, s, open := spireRig(t, options{mtls: true, proxies: []string{"198.51.100.1"}})
	b := open(svid42)
	cert := s.x509(t, svid42, b.key)
	form := with(b.credentials(""), "client_assertion", "-", "client_assertion_type", "-", "client_id", svid42)
	a := r.post(t, tokenURL, form, overTLS(cert))
	if a.status != 200 || a.text("token_type") != "Bearer" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if _, c := claims(t, a.text("access_token")); detailsText(t, c["cnf"]) != `{"x5t#S256":"`+web.X5T(cert.Raw)+`"}` || c["exp"].(float64) > float64(s.now.Add(10*time.Minute).Unix()) {
		t.Errorf("claims %v", c)
	}
	for name, mod := range map[string]func(*http.Request){
		"another sandbox's":           overTLS(s.x509(t, svid43, brokertest.NewKey(t))),
		"the same ID, another key":    overTLS(s.x509(t, svid42, brokertest.NewKey(t))),
		"self-signed":                 overTLS(clientCert(t, b.key)),
		"the authority":               overTLS(s.ca),
		"with a proof of another key": both(overTLS(cert), (&box{r: r, key: brokertest.NewKey(t)}).prove(t)),
		"from a proxy's connection":   both(overTLS(cert), from("198.51.100.1:1")),
		"a header that anybody can write": both(overTLS(clientCert(t, b.key)), header("Client-Cert", ":"+base64.StdEncoding.EncodeToString(cert.Raw)+":"),
			header("Client-Cert-Chain", ":"+base64.StdEncoding.EncodeToString(cert.Raw)+":")),
	} {
		if a := r.post(t, tokenURL, form, mod); a.status != 401 && a.status != 400 || a.text("access_token") != "" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	r.post(t, tokenURL, with(form, "client_id", svid43), overTLS(cert)).want(t, "A92 another client_id", 401, "invalid_client")
	passed := both(from("198.51.100.1:1"), header("Client-Cert", ":"+base64.StdEncoding.EncodeToString(cert.Raw)+":"))
	if a := r.post(t, tokenURL, form, passed); a.status != 200 {
		t.Errorf("passed on by the proxy: %d %s", a.status, a.body)
	}
}

// Over real TLS: the attestor evaluates the certificate of the handshake, also
// on a resumed session, and the handshake proves possession of its key.
func TestX509SVIDOverTLS(t *testing.T) {
	t.Parallel()
	r, s, open := spireRig(t, options{mtls: true})
	b := open(svid42)
	server := httptest.NewUnstartedServer(r.mux)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	form := with(b.credentials(""), "client_assertion", "-", "client_assertion_type", "-").Encode()
	mine := s.x509(t, svid42, b.key)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, tc := range map[string]struct {
		shows  *x509.Certificate
		key    jose.Signer
		status int
	}{
		"the sandbox's":                  {mine, b.key, 200},
		"another sandbox's":              {s.x509(t, svid43, b.key), b.key, 401},
		"the sandbox's, without its key": {mine, brokertest.NewKey(t), 0},
		"nothing":                        {nil, nil, 401},
		"one that nobody has issued":     {clientCert(t, b.key), b.key, 401},
	} {
		conf := &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		if tc.shows != nil {
			conf.Certificates = []tls.Certificate{{Certificate: [][]byte{tc.shows.Raw}, PrivateKey: tc.key}}
		}
		for range 2 {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
			status := 0
			if resp, err := client.Post(server.URL+tokenURL, "application/x-www-form-urlencoded", strings.NewReader(form)); err == nil {
				status = resp.StatusCode
				resp.Body.Close() //nolint:errcheck // test
			}
			if status != tc.status {
				t.Errorf("%s: status %d, want %d", name, status, tc.status)
			}
		}
	}
}

// A task that outlives an SVID continues with the sandbox's own key.
func TestX509SVIDEnrols(t *testing.T) {
	t.Parallel()
	r, s, open := spireRig(t, options{mtls: true})
	b := open(svid42)
	enroll := func(cert *x509.Certificate) *answer {
		req := r.request(http.MethodPost, "/v1/enroll", encode(t, map[string]any{"task_id": b.task}))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("DPoP", r.proof(t, b.key, http.MethodPost, "/v1/enroll", ""))
		overTLS(cert)(req)
		return r.do(t, req)
	}
	if a := enroll(s.x509(t, svid43, brokertest.NewKey(t))); a.status == 200 {
		t.Errorf("another sandbox: %d %s", a.status, a.body)
	}
	a := enroll(s.x509(t, svid42, brokertest.NewKey(t)))
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.token = a.text("task_token")
	if got := b.ask(t, canRead); got.status != 200 || got.text("token_type") != "DPoP" {
		t.Errorf("without the certificate, with the key: %d %s", got.status, got.body)
	}
	if a := enroll(s.x509(t, svid42, brokertest.NewKey(t))); a.status != 200 {
		t.Errorf("the next SVID, the same key: %d %s", a.status, a.body)
	}
}

func both(mods ...func(*http.Request)) func(*http.Request) {
	return func(req *http.Request) {
		for _, m := range mods {
			m(req)
		}
	}
}

func from(addr string) func(*http.Request) { return func(req *http.Request) { req.RemoteAddr = addr } }
