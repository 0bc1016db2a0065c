package verify_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
)

const (
	issuer   = "https://ebb.test"
	resource = "https://orders.test/api"
	base     = "https://orders.test"
	path     = "/api/eu/42"
)

var need = scopes.MustParseSet("orders:eu/42:read")

// world is an issuer that signs real tokens, and a sandbox with a key. It is
// reached without a network, so that synctest controls the clock.
type world struct {
	t    testing.TB
	now  func() time.Time
	ring *keys.Ring
	key  jose.Signer // the sandbox's
	jkt  string
	rs   jose.Signer // the resource server's own key at the feed
	n    int
	// replay is the Replay of the verifier made last. Proofs contain its nonce,
	// "" for another type of Replay.
	replay verify.Remembering

	mu      sync.Mutex
	down    bool
	keyDown bool
	events  []verify.Event
	maxAge  int
	wake    chan struct{}
	hits    map[string]int // requests by path
	nonce   string
	jwks    []byte // overrides the ring's
	silent  bool   // the feed never answers
	hears   []string
}

func newWorld(t testing.TB, now func() time.Time) *world {
	t.Helper()
	w := &world{t: t, now: now, key: p256(t), rs: p256(t), wake: make(chan struct{}), hits: map[string]int{}, maxAge: 10}
	k, err := keys.NewKey(p256(t), now().Add(-time.Hour), now().Add(-time.Hour), now().Add(1000*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if w.ring, err = keys.NewRing(keys.Policy{}, make([]byte, 32), k); err != nil {
		t.Fatal(err)
	}
	w.jkt = thumb(t, w.key)
	return w
}

func p256(t testing.TB) jose.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ed(t testing.TB) jose.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func thumb(t testing.TB, k jose.Signer) string {
	t.Helper()
	s, err := jose.Thumbprint(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// claims returns the claims of a valid token.
func (w *world) claims() map[string]any {
	w.n++
	now := w.now()
	return map[string]any{
		"iss": issuer, "aud": resource, "sub": "ann", "client_id": "sbx_1", "jti": fmt.Sprintf("lse_%d", w.n),
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "scope": "orders:eu/*:read",
		"cnf": map[string]any{"jkt": w.jkt}, issuer + verify.TaskClaim: "tsk_1", "txn": "txn_1",
	}
}

// token signs claims after change.
func (w *world) token(change func(map[string]any)) string {
	w.t.Helper()
	c := w.claims()
	if change != nil {
		change(c)
	}
	s, kid, _, err := w.ring.Signer(w.now())
	if err != nil {
		w.t.Fatal(err)
	}
	tok, err := jose.Sign(s, jose.SignHeader{Type: "at+jwt", KID: kid}, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return tok
}

func (w *world) proof(method, target, token string) string {
	w.t.Helper()
	nonce := ""
	if w.replay != nil {
		nonce = w.replay.Memory().Nonce
	}
	return w.proofWith(method, target, token, nonce)
}

func (w *world) proofWith(method, target, token, nonce string) string {
	w.t.Helper()
	return w.proofAt(w.now(), method, target, token, nonce)
}

// proofAt returns a proof with the iat.
func (w *world) proofAt(iat time.Time, method, target, token, nonce string) string {
	w.t.Helper()
	p, err := dpop.NewProof(w.key, method, target, token, nonce, iat)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// request returns a valid request with the token.
func (w *world) request(token string) *http.Request {
	r := httptest.NewRequest("GET", base+path+"?q=1", nil)
	r.Header.Set("Authorization", "DPoP "+token)
	r.Header.Set("DPoP", w.proof("GET", base+path, token))
	return r
}

func (w *world) config() verify.Config {
	return verify.Config{
		Issuer: issuer, Resource: resource, ClientID: "orders", Key: w.rs, HTTP: &http.Client{Transport: w}, Now: w.now,
		RequireScopes: func(*http.Request) (scopes.Set, error) { return need, nil },
	}
}

func (w *world) verifier(c verify.Config) *verify.Verifier {
	w.t.Helper()
	if c.Replay == nil {
		c.Replay = verify.NewReplay(0, w.now)
	}
	w.replay, _ = c.Replay.(verify.Remembering)
	v, err := verify.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// running returns a verifier that follows the feed until the test ends.
func (w *world) running(c verify.Config) *verify.Verifier {
	w.t.Helper()
	v := w.verifier(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = v.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	for v.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return v
}

func (w *world) kill(e verify.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	close(w.wake)
	w.wake = make(chan struct{})
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) count(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hits[path]
}

// RoundTrip is the issuer.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.hits[r.URL.Path]++
	down, silent := w.down || w.keyDown && strings.HasSuffix(r.URL.Path, "jwks.json"), w.silent && r.URL.Path == "/v1/revocations"
	w.mu.Unlock()
	if silent {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if down {
		return nil, errors.New("connection refused")
	}
	rec := httptest.NewRecorder()
	switch r.URL.Path {
	case "/.well-known/jwks.json":
		rec.Header().Set("Content-Type", "application/json")
		w.mu.Lock()
		body := w.jwks
		w.mu.Unlock()
		if body == nil {
			body = w.ring.JWKS(w.now())
		}
		_, _ = rec.Write(body)
	case "/oauth2/token":
		w.issue(rec, r)
	case "/v1/revocations":
		w.feed(rec, r)
	default:
		w.t.Errorf("the issuer was asked for %s", r.URL)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

func (w *world) checkProof(rec *httptest.ResponseRecorder, r *http.Request, token string) bool {
	p, err := dpop.Check(r.Header.Values("DPoP"), dpop.Request{Method: r.Method, URL: issuer + r.URL.Path, AccessToken: token, Now: w.now()}, dpop.Options{})
	if err != nil || p.JKT != thumb(w.t, w.rs) {
		w.t.Errorf("%s: proof of the resource server: %v", r.URL.Path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nonce == "" || p.Nonce == w.nonce {
		return true
	}
	rec.Header().Set("DPoP-Nonce", w.nonce)
	if token == "" {
		reply(rec, 400, map[string]any{"error": "use_dpop_nonce"})
	} else {
		reply(rec, 401, map[string]any{"type": issuer + "/problems/use_dpop_nonce"})
	}
	return false
}

func (w *world) issue(rec *httptest.ResponseRecorder, r *http.Request) {
	if !w.checkProof(rec, r, "") {
		return
	}
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("grant_type") != "client_credentials" || form.Get("resource") != issuer+"/v1" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		w.t.Errorf("token request %v, %v", form, err)
	}
	k, _ := jose.NewKey("", w.rs.Public())
	c, err := jose.Verify(form.Get("client_assertion"), jose.Profile{
		Types: []string{"client-authentication+jwt"}, Algs: []jose.Alg{jose.ES256}, Issuer: "orders", Audience: issuer, MaxLifetime: 2 * time.Minute,
	}, func(jose.Header) (jose.Key, error) { return k, nil }, w.now())
	if err != nil || c.Subject != "orders" || c.ID == "" {
		w.t.Errorf("client assertion: %v", err)
	}
	reply(rec, 200, map[string]any{"access_token": "feed-token-" + strconv.Itoa(w.count("/oauth2/token")), "token_type": "DPoP", "expires_in": 600})
}

func (w *world) feed(rec *httptest.ResponseRecorder, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
	if !strings.HasPrefix(token, "feed-token-") {
		w.t.Errorf("the feed was asked with %q", r.Header.Get("Authorization"))
	}
	if !w.checkProof(rec, r, token) {
		return
	}
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("cursor"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	wait, _ := strconv.Atoi(q.Get("wait_seconds"))
	deadline := time.NewTimer(time.Duration(wait) * time.Second)
	defer deadline.Stop()
	for {
		w.mu.Lock()
		if from > len(w.events) {
			w.mu.Unlock()
			reply(rec, 400, map[string]any{"type": issuer + "/problems/invalid_request"})
			return
		}
		events, wake := w.events[from:min(len(w.events), from+limit)], w.wake
		maxAge, hears := w.maxAge, w.hears
		w.mu.Unlock()
		expired := wait == 0
		if len(events) == 0 && !expired {
			select {
			case <-wake:
				continue
			case <-deadline.C:
			case <-r.Context().Done():
				return
			}
		}
		reply(rec, 200, map[string]any{"events": events, "cursor": strconv.Itoa(from + len(events)), "max_age_seconds": maxAge, "audiences": hears})
		return
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// fault returns the status and code of a refusal; "200" for none.
func fault(err error) string {
	if err == nil {
		return "200"
	}
	e, ok := errors.AsType[*verify.Error](err)
	if !ok {
		return err.Error()
	}
	return strings.TrimSpace(strconv.Itoa(e.Status) + " " + string(e.Code))
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
