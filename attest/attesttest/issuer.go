package attesttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Issuer is an OpenID Connect issuer in this process, with a real key endpoint
// on loopback. It signs any claims with ES256. It is safe for concurrent use.
type Issuer struct {
	// URL is iss. JWKSURL is the address of its key set.
	URL     string
	JWKSURL string

	t     testing.TB
	clock *Clock

	mu      sync.Mutex
	keys    []issuerKey // the last one signs
	made    int
	fetches int
	status  int
}

type issuerKey struct {
	kid     string
	private *ecdsa.PrivateKey
}

// NewIssuer starts an Issuer with one key. It stops when the test ends.
func NewIssuer(t testing.TB, clock *Clock) *Issuer {
	t.Helper()
	i := &Issuer{t: t, clock: clock, status: http.StatusOK}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jwks.json", i.serveKeys)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.URL, i.JWKSURL = server.URL, server.URL+"/jwks.json"
	i.Rotate()
	return i
}

func (i *Issuer) serveKeys(w http.ResponseWriter, r *http.Request) {
	set := i.JWKS()
	i.mu.Lock()
	i.fetches++
	status := i.status
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Location", i.URL+"/elsewhere")
	w.WriteHeader(status)
	if status == http.StatusOK {
		w.Write(set) //nolint:errcheck // the client has gone
	}
}

// Rotate makes a new signing key and returns its kid. The old keys stay published.
func (i *Issuer) Rotate() (kid string) {
	i.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	kid = fmt.Sprintf("key-%d", i.made)
	i.keys = append(i.keys, issuerKey{kid, k})
	return kid
}

// Retire removes all keys except the signing key from the published set.
func (i *Issuer) Retire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = i.keys[len(i.keys)-1:]
}

// Answer sets the HTTP status of the key endpoint for later requests. It starts as 200.
func (i *Issuer) Answer(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status = status
}

// Fetches returns the number of requests to the key endpoint.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// JWKS returns the published key set.
func (i *Issuer) JWKS() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := make([]jose.Key, 0, len(i.keys))
	for _, k := range i.keys {
		key, err := jose.NewKey(k.kid, &k.private.PublicKey)
		if err != nil {
			i.t.Error(err)
		}
		keys = append(keys, key)
	}
	b, err := jose.MarshalJWKS(keys...)
	if err != nil {
		i.t.Error(err)
	}
	return b
}

// Signer returns the signing key and its kid.
func (i *Issuer) Signer() (crypto.Signer, string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := i.keys[len(i.keys)-1]
	return k.private, k.kid
}

// Claims are the members of a payload or header. A nil value removes a default
// member.
type Claims map[string]any

// Token returns a signed token with iss, sub "workload", iat, exp (5 minutes) and a
// random jti, changed by claims. It has no aud by default.
func (i *Issuer) Token(claims Claims) string { i.t.Helper(); return i.TokenWith(nil, claims) }

// TokenWith is like Token, with header changing the default header (alg, typ JWT, kid).
// The signature is always ES256, even when alg names another algorithm.
func (i *Issuer) TokenWith(header, claims Claims) string {
	i.t.Helper()
	key, kid := i.Signer()
	now := i.clock.Now()
	h := Claims{"alg": "ES256", "typ": "JWT", "kid": kid}
	c := Claims{"iss": i.URL, "sub": "workload", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": rand.Text()}
	return Forge(i.t, key, merge(h, header), merge(c, claims))
}

func merge(base, change Claims) Claims {
	maps.Copy(base, change)
	maps.DeleteFunc(base, func(_ string, v any) bool { return v == nil })
	return base
}
