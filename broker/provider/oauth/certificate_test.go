package oauth_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert/clientcerttest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/oauth"
)

// mutual is an authorization server that accepts only clients with a certificate of an authority.
type mutual struct {
	*clientcerttest.Authority
	path string // of ebb's certificate
	cfg  oauth.Config

	mu   sync.Mutex
	seen []string // path, who it was, and the client that the form names
}

func newMutual(t *testing.T, auth string) *mutual {
	t.Helper()
	m := &mutual{Authority: clientcerttest.New(t)}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.PostForm.Has("client_secret") || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		m.mu.Lock()
		m.seen = append(m.seen, r.URL.Path+" "+r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.PostForm.Get("client_id"))
		m.mu.Unlock()
		_, _ = w.Write([]byte(`{` + good + `,"active":true}`))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: m.Pool()}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	m.path = file(t, m.Client(t, "ebb"))
	m.cfg = oauth.Config{
		TokenEndpoint: s.URL + "/token", RevocationEndpoint: s.URL + "/revoke", IntrospectionEndpoint: s.URL + "/introspect", CAFile: file(t, ca),
		Client: oauth.Client{ID: "ebb:1", Auth: auth, CertificateFile: m.path},
		Grants: map[string]oauth.Grant{"drive": {Actions: map[string]string{"read": "files.read"}}}, // the client's own
	}
	return m
}

func (m *mutual) said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.seen = nil }()
	return strings.Join(m.seen, ", ")
}

// put replaces ebb's certificate.
func (m *mutual) put(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(m.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestClientCertificate: each endpoint is shown the certificate that there is now, and is told the client's name (RFC 8705
// section 2); no secret is sent.
//
//ebb:invariant I2 The `oauth` provider reuses no connection that showed ebb's own client certificate for another call
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{"tls_client_auth", "self_signed_tls_client_auth"} {
		m := newMutual(t, auth)
		d := driver(t, m.cfg, nil)
		g, c := mint(t, d, "files:drive:read")
		if alive, err := d.(provider.Prober).Probe(t.Context(), targetOf(g, c)); err != nil || !alive { //nolint:forcetypeassert // a test
			t.Errorf("%s: Probe = %v, %v", auth, alive, err)
		}
		m.put(t, m.Client(t, "next"))
		if err := d.Revoke(t.Context(), targetOf(g, c)); err != nil {
			t.Errorf("%s: Revoke = %v", auth, err)
		}
		if got, want := m.said(), "/token ebb ebb:1, /introspect ebb ebb:1, /revoke next ebb:1"; got != want {
			t.Errorf("%s: %s, want %s", auth, got, want)
		}
		if f := d.(provider.Checker).CheckSetup(t.Context()); len(f) != 1 || f[0].Fatal || !strings.Contains(f[0].What, "expires on") { //nolint:forcetypeassert // a test
			t.Errorf("%s: %+v", auth, f)
		}
	}
}

// TestClientCertificatesThatCannotBeShown: with a missing or unusable certificate ebb sends nothing, no revocation is pending, and
// the error tells the operator why. If the server refuses the certificate, the outcome of the call is unknown.
//
//ebb:invariant I6 If ebb's client certificate for an authorization server is missing or unusable, ebb sends nothing to that server
func TestClientCertificatesThatCannotBeShown(t *testing.T) {
	t.Parallel()
	m := newMutual(t, "tls_client_auth")
	d := driver(t, m.cfg, nil)
	at := func(end time.Time) string {
		return m.Client(t, "ebb", func(c *x509.Certificate) { c.NotAfter = end })
	}
	for name, tt := range map[string]struct{ text, says string }{
		"expired":       {at(time.Now().Add(-time.Minute)), "has expired"},
		"without a key": {clientcerttest.PEM(m.Root), "private key"},
		"not its key":   {clientcerttest.PEM(m.Root) + clientcerttest.KeyPEM(t, clientcerttest.Key(t)), "does not match the first"},
		"no PEM":        {"canary-key", "PEM"},
	} {
		m.put(t, tt.text)
		_, err := d.Mint(t.Context(), grant("files:drive:read"))
		if refused(t, err, "Tell the operator"); !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
		f := d.(provider.Checker).CheckSetup(t.Context()) //nolint:forcetypeassert // a test
		if len(f) != 1 || !f[0].Fatal || !strings.Contains(f[0].What, tt.says) || strings.Contains(f[0].What, "canary") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if err := os.Remove(m.path); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Mint(t.Context(), grant("files:drive:read")); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("none: %v", err)
	}
	m.put(t, clientcerttest.New(t).Client(t, "ebb"))
	if _, err := d.Mint(t.Context(), grant("files:drive:read")); err == nil || errors.Is(err, provider.ErrRefused) {
		t.Errorf("of another authority: %v", err)
	}
	if got := m.said(); got != "" {
		t.Errorf("the server has got %s", got)
	}
}
