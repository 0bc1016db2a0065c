package spiffe

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"ebb/attest/jose"
)

// bundle is the keys of one trust domain, those of each use apart. An empty one
// means that the trust domain has taken all its keys back.
type bundle struct {
	jwt  jose.KeySet
	x509 *x509bundle.Bundle
}

const (
	maxBundle      = 256 << 10 // bytes; what package jose takes for a JWK set
	maxAuthorities = 100       // of one use

	// defaultRefresh is for bundles that give no hint (SPIFFE Trust Domain and
	// Bundle, section 4.1.2).
	defaultRefresh = 5 * time.Minute
)

// shape is what a strict reader sees of a bundle.
type shape struct {
	Keys []struct {
		Use string `json:"use"`
	} `json:"keys"`
}

// parseBundle reads a bundle in the format of SPIFFE Trust Domain and Bundle,
// section 4, and how often its publisher wants it to be fetched.
func parseBundle(td spiffeid.TrustDomain, b []byte) (*bundle, time.Duration, error) {
	// go-spiffe reads JSON as encoding/json does: of two members with one name the
	// last counts. Both readers must see the same keys.
	if _, err := jose.ParseJWKS(b); err != nil {
		return nil, 0, err
	}
	var seen shape
	if err := json.Unmarshal(b, &seen); err != nil {
		return nil, 0, errors.New("the bundle is not a strict JWK set")
	}
	read, err := spiffebundle.Parse(td, b)
	if err != nil {
		return nil, 0, err
	}
	jwt, entries := read.JWTAuthorities(), 0
	for _, k := range seen.Keys {
		if k.Use == "jwt-svid" {
			entries++
		}
	}
	if entries != len(jwt) {
		return nil, 0, errors.New("two JWT keys of the bundle have the same kid")
	}
	out, err := newBundle(td, jwt, read.X509Authorities())
	if err != nil {
		return nil, 0, err
	}
	refresh, told := read.RefreshHint()
	if !told {
		refresh = defaultRefresh
	}
	return out, refresh, nil
}

// newBundle takes the authorities that can verify. A private or symmetric key
// among them, or a certificate that is no authority, spoils the bundle: its
// publisher has lost control of it.
func newBundle(td spiffeid.TrustDomain, jwt map[string]crypto.PublicKey, authorities []*x509.Certificate) (*bundle, error) {
	if len(jwt) > maxAuthorities || len(authorities) > maxAuthorities {
		return nil, fmt.Errorf("the bundle has more than %d keys of one use", maxAuthorities)
	}
	var keys []jose.Key
	for _, kid := range slices.Sorted(maps.Keys(jwt)) {
		switch jwt[kid].(type) {
		case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
		default:
			return nil, errors.New("a JWT key of the bundle is not public")
		}
		k, err := jose.NewKey(kid, jwt[kid])
		if err != nil {
			continue // too weak, or of a kind that nobody can use
		}
		k.Use = "jwt-svid"
		keys = append(keys, k)
	}
	for _, c := range authorities {
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, errors.New("an X.509 authority of the bundle is no CA certificate")
		}
	}
	set, err := jose.NewKeySet(keys...)
	if err != nil {
		return nil, err
	}
	return &bundle{jwt: set, x509: x509bundle.FromX509Authorities(td, authorities)}, nil
}
