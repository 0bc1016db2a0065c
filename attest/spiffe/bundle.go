package spiffe

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/ebb-broker/ebb/attest/jose"
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

// document is a bundle as it is published (SPIFFE Trust Domain and Bundle, section 4).
type document struct {
	Keys    []map[string]jsontext.Value `json:"keys"`
	Refresh *int64                      `json:"spiffe_refresh_hint"` // seconds
}

// parseBundle reads a bundle, and how often its publisher wants it to be fetched.
// go-spiffe's own reader takes the last of two members with one name, and panics under
// GODEBUG=fips140=only: go-jose takes the SHA-1 of every certificate.
func parseBundle(td spiffeid.TrustDomain, b []byte) (*bundle, time.Duration, error) {
	// A private or symmetric key spoils the bundle: its publisher has lost control of it.
	if _, err := jose.ParseJWKS(b); err != nil {
		return nil, 0, err
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, 0, errors.New("the bundle is not a strict JWK set")
	}
	var keys []jose.Key
	var authorities []*x509.Certificate
	kids := map[string]bool{}
	for _, members := range d.Keys {
		k, err := anyUse(members)
		switch text(members["use"]) {
		case "jwt-svid":
			kid := text(members["kid"])
			if kid == "" || kids[kid] {
				return nil, 0, errors.New("two JWT keys of the bundle have the same kid, or one has none")
			}
			kids[kid] = true
			if err == nil { // a key that is too weak or of an unknown kind is left out
				k.Use = "jwt-svid"
				keys = append(keys, k)
			}
		case "x509-svid":
			c, certErr := authority(members["x5c"])
			if certErr != nil {
				return nil, 0, certErr
			}
			if err == nil && !k.Public.(interface{ Equal(crypto.PublicKey) bool }).Equal(c.PublicKey) {
				return nil, 0, errors.New("an X.509 authority of the bundle has another key than its certificate (RFC 7517, section 4.7)")
			}
			authorities = append(authorities, c)
		}
	}
	out, err := newBundle(td, keys, authorities)
	if err != nil || d.Refresh == nil {
		return out, defaultRefresh, err
	}
	return out, time.Duration(*d.Refresh) * time.Second, nil
}

// text is the value of a JSON string, "" for everything else.
func text(v jsontext.Value) (s string) {
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// anyUse reads a key whose use is none of those that package jose knows.
func anyUse(members map[string]jsontext.Value) (jose.Key, error) {
	rest := maps.Clone(members)
	delete(rest, "use")
	b, err := json.Marshal(rest)
	if err != nil {
		return jose.Key{}, err
	}
	return jose.ParseJWK(b)
}

// authority reads the one certificate of an X.509 authority.
func authority(x5c jsontext.Value) (*x509.Certificate, error) {
	var text []string
	if json.Unmarshal(x5c, &text) != nil || len(text) != 1 {
		return nil, errors.New("an X.509 authority of the bundle has not one certificate")
	}
	der, err := base64.StdEncoding.Strict().DecodeString(text[0])
	if err != nil {
		return nil, errors.New("a certificate of the bundle is not base64")
	}
	return x509.ParseCertificate(der)
}

// jwtKeys takes the keys that can verify. A private or symmetric key among them spoils
// them all.
func jwtKeys(public map[string]crypto.PublicKey) ([]jose.Key, error) {
	var keys []jose.Key
	for _, kid := range slices.Sorted(maps.Keys(public)) {
		switch public[kid].(type) {
		case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
		default:
			return nil, errors.New("a JWT key of the bundle is not public")
		}
		k, err := jose.NewKey(kid, public[kid])
		if err != nil {
			continue // too weak, or of a kind that nobody can use
		}
		k.Use = "jwt-svid"
		keys = append(keys, k)
	}
	return keys, nil
}

// newBundle refuses a certificate that is no authority.
func newBundle(td spiffeid.TrustDomain, jwt []jose.Key, authorities []*x509.Certificate) (*bundle, error) {
	if len(jwt) > maxAuthorities || len(authorities) > maxAuthorities {
		return nil, fmt.Errorf("the bundle has more than %d keys of one use", maxAuthorities)
	}
	for _, c := range authorities {
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, errors.New("an X.509 authority of the bundle is no CA certificate")
		}
	}
	set, err := jose.NewKeySet(jwt...)
	if err != nil {
		return nil, err
	}
	return &bundle{jwt: set, x509: x509bundle.FromX509Authorities(td, authorities)}, nil
}
