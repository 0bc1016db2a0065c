package attesttest

import (
	"maps"
	"testing"

	"github.com/ebb-broker/ebb/attest"
)

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
