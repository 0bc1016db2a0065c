package api_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web"
)

// list is a harmless call to /v1 with any headers.
func (r *rig) list(t testing.TB, mods ...func(*http.Request)) *answer {
	t.Helper()
	req := r.request(http.MethodGet, "/v1/tasks", nil)
	for _, m := range mods {
		m(req)
	}
	return r.do(t, req)
}

func TestRFC_A51_H38_BoundTokenAsBearer(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	token, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	a := r.list(t, header("Authorization", "Bearer "+token))
	a.problem(t, "as Bearer", 401, "invalid_token")
	a = r.list(t, header("Authorization", "Bearer "+token), header("DPoP", r.proof(t, key, "GET", "/v1/tasks", token)))
	a.problem(t, "as Bearer with a proof", 401, "invalid_token")
	for _, req := range []*http.Request{
		r.request(http.MethodGet, "/v1/tasks?access_token="+token, nil),
		r.request(http.MethodPost, "/v1/tasks", strings.NewReader("access_token="+token)),
	} {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		a := r.do(t, req)
		a.problem(t, "H38 in query or body", 401, "invalid_client")
		if strings.Contains(r.log.String(), token) {
			t.Error("the token is in the log")
		}
	}
}

func TestRFC_A52_A53_H32_Proofs(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	token, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	other, thief := r.apiToken(t, brokertest.Operator), brokertest.NewKey(t)
	auth := header("Authorization", "DPoP "+token)
	for name, c := range map[string]struct {
		proof string
		kind  string
	}{
		"no proof":           {"", "invalid_dpop_proof"},
		"A52 no ath":         {r.proof(t, key, "GET", "/v1/tasks", ""), "invalid_dpop_proof"},
		"A52 wrong ath":      {r.proof(t, key, "GET", "/v1/tasks", other), "invalid_dpop_proof"},
		"A53 another key":    {r.proof(t, thief, "GET", "/v1/tasks", token), "invalid_token"},
		"H29 another method": {r.proof(t, key, "POST", "/v1/tasks", token), "invalid_dpop_proof"},
		"H29 another path":   {r.proof(t, key, "GET", "/v1/leases", token), "invalid_dpop_proof"},
	} {
		a := r.list(t, auth, func(req *http.Request) {
			if c.proof != "" {
				req.Header.Set("DPoP", c.proof)
			}
		})
		a.problem(t, name, 401, c.kind)
		want := `error="` + c.kind + `"`
		if ch := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(ch, "DPoP ") || !strings.Contains(ch, want) {
			t.Errorf("%s: challenge %q, want %s", name, ch, want)
		}
	}
	if a := r.list(t, auth, header("DPoP", r.proof(t, key, "GET", "/v1/tasks", token))); a.status != 200 {
		t.Errorf("a good proof after all that: %d %s", a.status, a.body)
	}
	proof := r.proof(t, key, "GET", "/v1/tasks", token)
	r.list(t, auth, header("DPoP", proof))
	r.list(t, auth, header("DPoP", proof)).problem(t, "H27 replayed", 401, "invalid_dpop_proof")
}

func TestRFC_A54_A100_Challenge(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	a := r.list(t)
	a.problem(t, "no credentials", 401, "invalid_client")
	ch := a.header.Get("WWW-Authenticate")
	if !strings.HasPrefix(ch, "DPoP ") || strings.Contains(ch, "error=") || !strings.Contains(ch, `algs="ES256 `) {
		t.Errorf("challenge %q", ch)
	}
	const at = `resource_metadata="https://ebb.test/.well-known/oauth-protected-resource/v1"`
	if !strings.Contains(ch, at) {
		t.Errorf("challenge %q, want %s", ch, at)
	}
	a = r.list(t, header("Authorization", "DPoP x.y.z"), header("DPoP", r.proof(t, brokertest.NewKey(t), "GET", "/v1/tasks", "x.y.z")))
	a.problem(t, "A66 garbage", 401, "invalid_token")
	if ch := a.header.Get("WWW-Authenticate"); !strings.Contains(ch, `error="invalid_token"`) || !strings.Contains(ch, at) {
		t.Errorf("challenge %q", ch)
	}
}

func TestRFC_A55_A56_H39_H40_Headers(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	token, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	proof := func() func(*http.Request) { return header("DPoP", r.proof(t, key, "GET", "/v1/tasks", token)) }
	r.list(t, header("Proxy-Authorization", "DPoP "+token), proof()).problem(t, "A55 Proxy-Authorization", 401, "invalid_client")
	for name, values := range map[string][]string{
		"A56 Bearer and DPoP": {"DPoP " + token, "Bearer " + token},
		"H40 twice the same":  {"DPoP " + token, "DPoP " + token},
		"two in one":          {"DPoP " + token + ", Bearer " + token},
	} {
		a := r.list(t, func(req *http.Request) { req.Header["Authorization"] = values }, proof())
		a.problem(t, name, 400, "invalid_request")
	}
	for name, value := range map[string]string{"Basic": "Basic YTpi", "another scheme": "Negotiate x"} {
		r.list(t, header("Authorization", value), proof()).problem(t, name, 401, "invalid_client")
	}
	if a := r.list(t, header("Authorization", "dPoP "+token), proof()); a.status != 200 {
		t.Errorf("scheme in another case: %d %s", a.status, a.body)
	}
}

// clientCert makes a self-signed client certificate (RFC 8705 section 2.2).
func clientCert(t testing.TB, key jose.Signer) *x509.Certificate {
	t.Helper()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func overTLS(cert *x509.Certificate) func(*http.Request) {
	return func(req *http.Request) {
		req.TLS = &tls.ConnectionState{}
		if cert != nil {
			req.TLS.PeerCertificates = []*x509.Certificate{cert}
		}
	}
}

func TestRFC_A57_A58_MutualTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{mtls: true})
	cert := clientCert(t, r.env.Keys[brokertest.Operator])
	f := r.client(t, brokertest.Operator, url.Values{"grant_type": {grantCredentials}})
	a := r.post(t, tokenURL, f, overTLS(cert))
	if a.status != 200 || a.text("token_type") != "Bearer" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	token := a.text("access_token")
	if _, c := claims(t, token); detailsText(t, c["cnf"]) != `{"x5t#S256":"`+web.X5T(cert.Raw)+`"}` {
		t.Errorf("A58 cnf %v", c["cnf"])
	}
	auth := header("Authorization", "Bearer "+token)
	if a := r.list(t, auth, overTLS(cert)); a.status != 200 {
		t.Errorf("with the certificate: %d %s", a.status, a.body)
	}
	r.list(t, auth, overTLS(nil)).problem(t, "A57 no certificate", 401, "invalid_token")
	r.list(t, auth, overTLS(clientCert(t, brokertest.NewKey(t)))).problem(t, "A57 another certificate", 401, "invalid_token")
	spoof := header("Client-Cert", ":"+base64.StdEncoding.EncodeToString(cert.Raw)+":")
	r.list(t, auth, spoof).problem(t, "A104 a header that anybody can write", 401, "invalid_token")
}

func TestRFC_A104_CertificateFromAProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{mtls: true, proxies: []string{"192.0.2.1"}})
	cert := clientCert(t, r.env.Keys[brokertest.Operator])
	passed := header("Client-Cert", ":"+base64.StdEncoding.EncodeToString(cert.Raw)+":")
	f := r.client(t, brokertest.Operator, url.Values{"grant_type": {grantCredentials}})
	a := r.post(t, tokenURL, f, passed)
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	auth := header("Authorization", "Bearer "+a.text("access_token"))
	if a := r.list(t, auth, passed); a.status != 200 {
		t.Errorf("passed on by the proxy: %d %s", a.status, a.body)
	}
	r.list(t, auth, passed, func(req *http.Request) { req.RemoteAddr = "198.51.100.1:1" }).problem(t, "past the proxy", 401, "invalid_token")
	r.list(t, auth, header("Client-Cert", "nonsense")).problem(t, "nonsense", 400, "invalid_request")
}

// A sandbox behind mutual TLS needs no DPoP: its certificate's key is its key.
func TestMutualTLSSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{mtls: true})
	key := brokertest.NewKey(t)
	cert := clientCert(t, key)
	opened := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", withTicket())
	req := r.request(http.MethodPost, "/v1/enroll", encode(t, map[string]any{"ticket": opened.text("ticket")}))
	req.Header.Set("Content-Type", "application/json")
	overTLS(cert)(req)
	a := r.do(t, req)
	if a.status != 200 {
		t.Fatalf("enrolling: %d %s", a.status, a.body)
	}
	b := &box{r: r, key: key, token: a.text("task_token")}
	got := r.post(t, tokenURL, b.exchange(canRead), overTLS(cert))
	if got.status != 200 || got.text("token_type") != "Bearer" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if _, c := claims(t, got.text("access_token")); detailsText(t, c["cnf"]) != `{"x5t#S256":"`+web.X5T(cert.Raw)+`"}` {
		t.Errorf("cnf %v", c["cnf"])
	}
	r.post(t, tokenURL, b.exchange(canRead), overTLS(clientCert(t, brokertest.NewKey(t)))).want(t, "another certificate", 400, "invalid_request")
}

// H29 for paths: a proof for one id is not valid for another, and an escaped
// path differs from the unescaped one.
func TestProofIsForThePath(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	token, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	path := "/v1/tasks/" + b.task
	for name, htu := range map[string]string{"another task": path + "0", "with a slash": path + "/", "escaped": strings.Replace(path, "tsk", "%74sk", 1), "another case": strings.ToUpper(path)} {
		p, err := dpop.NewProof(key, "GET", brokertest.Issuer+htu, token, "", r.env.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		req := r.request(http.MethodGet, path, nil)
		req.Header.Set("Authorization", "DPoP "+token)
		req.Header.Set("DPoP", p)
		r.do(t, req).problem(t, name, 401, "invalid_dpop_proof")
	}
}
