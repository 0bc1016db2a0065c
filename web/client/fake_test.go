package client_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/web/client"
)

const issuer = "https://ebb.test"

// fake is an authorization server that validates requests against the RFCs
// before it sends the response of a script.
type fake struct {
	t      testing.TB
	now    func() time.Time
	key    jose.Key // the client's public key
	client string   // its client_id
	issuer string
	kid    string // of its client assertions

	mu      sync.Mutex
	nonce   string // required when not ""
	tokens  int    // issued
	life    int64  // of a token, seconds
	seen    map[string]bool
	forms   []url.Values // accepted at /oauth2
	calls   []string     // accepted elsewhere: method, path, query, body
	asked   int          // responses that required a nonce
	script  func(w http.ResponseWriter, r *http.Request, body []byte)
	revoked map[string]bool // tokens that are refused
	ends    map[string]bool // tokens that permit only ends
}

func newKey(t testing.TB) (jose.Signer, jose.Key) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := jose.NewKey("", k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return k, pub
}

func newFake(t testing.TB, clientID string, now func() time.Time) (*fake, jose.Signer) {
	key, pub := newKey(t)
	return &fake{t: t, now: now, key: pub, client: clientID, issuer: issuer, life: 600, seen: map[string]bool{}, revoked: map[string]bool{}, ends: map[string]bool{}}, key
}

// RoundTrip serves a client without a network, so that synctest controls the
// clock.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	f.ServeHTTP(w, r)
	if w.Header().Get("X-Hang-Up") != "" {
		return nil, errors.New("connection reset")
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.proof(w, r) {
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/oauth2/") {
		if r.URL.Path != "/v1/enroll" && !f.authorized(w, r) {
			return
		}
		if len(body) > 0 && r.Header.Get("Content-Type") != "application/json" {
			f.t.Errorf("%s: content type %q", r.URL.Path, r.Header.Get("Content-Type"))
		}
		f.calls = append(f.calls, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)))
		f.script(w, r, body)
		return
	}
	form := f.form(r, body)
	f.forms = append(f.forms, form)
	if f.script != nil && (r.URL.Path != "/oauth2/token" || form.Get("grant_type") != "client_credentials" || form.Get("scope") != "") {
		f.script(w, r, body)
		return
	}
	f.tokens++
	token, scope := fmt.Sprintf("token-%d", f.tokens), "operator"
	if f.ends[token] {
		scope = "ends operator"
	}
	answer(w, 200, map[string]any{"access_token": token, "token_type": "DPoP", "expires_in": f.life, "scope": scope})
}

// proof checks RFC 9449 section 4.3, replay, and the nonce when one is required.
func (f *fake) proof(w http.ResponseWriter, r *http.Request) bool {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
	p, err := dpop.Check(r.Header.Values("DPoP"), dpop.Request{
		Method: r.Method, URL: f.issuer + r.URL.EscapedPath(), AccessToken: token, Now: f.now(),
	}, dpop.Options{})
	if err != nil {
		f.t.Errorf("%s %s: proof refused: %v", r.Method, r.URL.Path, err)
	}
	if f.seen[p.ReplayKey] {
		f.t.Errorf("%s %s: a proof was used twice", r.Method, r.URL.Path)
	}
	f.seen[p.ReplayKey] = true
	if want, _ := f.key.Thumbprint(); p.JKT != want {
		f.t.Errorf("%s %s: proof with key %s", r.Method, r.URL.Path, p.JKT)
	}
	if f.nonce == "" || p.Nonce == f.nonce {
		return true
	}
	f.asked++
	w.Header().Set("DPoP-Nonce", f.nonce)
	if strings.HasPrefix(r.URL.Path, "/oauth2/") {
		answer(w, 400, map[string]any{"error": "use_dpop_nonce", "error_description": "Use the nonce."})
		return false
	}
	w.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
	problem(w, 401, "use_dpop_nonce", "Use the nonce.")
	return false
}

func (f *fake) authorized(w http.ResponseWriter, r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
	if !ok || len(r.Header.Values("Authorization")) != 1 {
		f.t.Errorf("%s: Authorization %q", r.URL.Path, r.Header.Values("Authorization"))
	}
	if f.revoked[token] {
		w.Header().Set("WWW-Authenticate", `DPoP error="invalid_token"`)
		problem(w, 401, "invalid_token", "The token has expired.")
		return false
	}
	if f.ends[token] && !strings.HasSuffix(r.URL.Path, "/complete") {
		problem(w, 503, "temporarily_unavailable", "A part of the broker is unavailable.")
		return false
	}
	return true
}

// form checks RFC 6749 section 3.2 and, with a client assertion, RFC 7523 and
// its update.
func (f *fake) form(r *http.Request, body []byte) url.Values {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.URL.RawQuery != "" || r.Header.Get("Authorization") != "" && !slices.Contains([]string{"/oauth2/revoke", "/oauth2/credentials", "/oauth2/delegate"}, r.URL.Path) {
		f.t.Errorf("%s %s with %q is no form post", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		f.t.Error(err)
	}
	for name, v := range form {
		if len(v) != 1 || v[0] == "" {
			f.t.Errorf("parameter %s = %q", name, v)
		}
	}
	if !form.Has("client_assertion") {
		return form
	}
	c, err := jose.Verify(form.Get("client_assertion"), jose.Profile{
		Types: []string{"client-authentication+jwt"}, Algs: []jose.Alg{jose.ES256, jose.EdDSA},
		Issuer: f.client, Audience: f.issuer, MaxLifetime: 2 * time.Minute,
	}, func(h jose.Header) (jose.Key, error) { return f.key, nil }, f.now())
	switch {
	case err != nil:
		f.t.Errorf("client assertion: %v", err)
	case c.Subject != f.client || c.ID == "" || form.Get("client_id") != f.client || form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
		f.t.Errorf("client assertion of %s, client_id %s", c.Subject, form.Get("client_id"))
	case f.seen[c.ID]:
		f.t.Error("a client assertion was used twice")
	}
	if err == nil {
		f.seen[c.ID] = true
		if c.Header.KID != f.kid {
			f.t.Errorf("assertion kid %q, want %q", c.Header.KID, f.kid)
		}
	}
	return form
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, kind, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": issuer + "/problems/" + kind, "title": "T", "status": status, "detail": detail, "instance": "req-1"})
}

func (f *fake) operator(t testing.TB, key jose.Signer) *client.Operator {
	t.Helper()
	o, err := client.NewOperator(client.OperatorConfig{
		Config:   client.Config{Issuer: issuer, HTTP: &http.Client{Transport: f}, Now: f.now},
		ClientID: f.client, Key: key, KID: f.kid,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}
