package attesttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
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

// Forge signs any header over any payload, including those that jose.Sign refuses. It
// signs with the algorithm of the key (P-256, Ed25519 or RSA), even when the header
// names another. Strings are encoded as they are, other values as JSON.
func Forge(t testing.TB, k jose.Signer, header, payload any) string {
	t.Helper()
	text := func(v any) string {
		if s, ok := v.(string); ok {
			return base64.RawURLEncoding.EncodeToString([]byte(s))
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	in := text(header) + "." + text(payload)
	var sig []byte
	sum := sha256.Sum256([]byte(in))
	switch k := k.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		sig = make([]byte, 64)
		r.FillBytes(sig[:32])
		s.FillBytes(sig[32:])
	case ed25519.PrivateKey:
		sig = ed25519.Sign(k, []byte(in))
	default:
		var err error
		if sig, err = k.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
			t.Fatal(err)
		}
	}
	return in + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// PublicJWK returns the public key of a signer as a decoded JWK with exactly the members
// that RFC 7638 requires.
func PublicJWK(t testing.TB, k jose.Signer) map[string]any {
	t.Helper()
	pub, err := jose.NewKey("", k.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := jose.MarshalPublicJWK(pub)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, name := range []string{"kty", "crv", "x", "y", "n", "e"} {
		if v, has := all[name]; has {
			out[name] = v
		}
	}
	return out
}

// Tokens returns evidence for a kind that judges JWTs: a valid token in which the given
// members of header and claims are replaced, or removed where they are nil.
type Tokens func(t *testing.T, header, claims Claims) attest.Evidence

// With returns a function that makes a token with changed claims.
func (k Tokens) With(claims Claims) func(*testing.T) attest.Evidence {
	return func(t *testing.T) attest.Evidence { return k(t, nil, claims) }
}

// Under returns a function that makes a token with a changed header.
func (k Tokens) Under(header Claims) func(*testing.T) attest.Evidence {
	return func(t *testing.T) attest.Evidence { return k(t, header, nil) }
}

// Bad returns the cases of Suite.Bad that every kind of JWT must reject, and those of
// more, which are the kind's own.
func (k Tokens) Bad(more map[string]func(*testing.T) attest.Evidence) map[string]func(*testing.T) attest.Evidence {
	bad := map[string]func(*testing.T) attest.Evidence{
		"no audience":        k.With(Claims{"aud": nil}),
		"H16 at+jwt":         k.Under(Claims{"typ": "at+jwt"}),
		"H16 dpop+jwt":       k.Under(Claims{"typ": "dpop+jwt"}),
		"H16 ebb-task+jwt":   k.Under(Claims{"typ": "ebb-task+jwt"}),
		"H8 crit":            k.Under(Claims{"crit": []string{"x"}, "x": 1}),
		"H5 jwk":             k.Under(Claims{"jwk": map[string]any{"kty": "EC"}}),
		"H1 none":            k.Under(Claims{"alg": "none"}),
		"H2 HS256":           k.Under(Claims{"alg": "HS256"}),
		"alg of another key": k.Under(Claims{"alg": "RS256"}),
		"H7 path kid":        k.Under(Claims{"kid": "../../dev/null"}),
	}
	maps.Copy(bad, more)
	return bad
}

// Lures returns tokens that contain url in a place that a careless verifier might
// connect to: header members, the usual claims, and the given claims of the kind.
func (k Tokens) Lures(t *testing.T, url string, claims ...string) []attest.Evidence {
	t.Helper()
	var out []attest.Evidence
	for _, name := range []string{"jku", "x5u", "kid", "iss", "typ"} {
		out = append(out, k(t, Claims{name: url}, nil))
	}
	for _, name := range append([]string{"iss", "jwks_uri", "aud", "sub"}, claims...) {
		out = append(out, k(t, nil, Claims{name: url}))
	}
	return out
}
