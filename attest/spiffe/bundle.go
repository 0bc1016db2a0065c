package spiffe

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
)

// bundle has the keys of one trust domain, separated by use. An empty bundle means that the
// trust domain has revoked all its keys.
type bundle struct {
	jwt  jose.KeySet
	x509 *x509bundle.Bundle
}

const (
	maxBundle      = 256 << 10 // in bytes; the limit of package jose for a JWK set
	maxAuthorities = 100       // for each use

	// defaultRefresh applies to bundles without a refresh hint (SPIFFE Trust Domain and
	// Bundle, section 4.1.2).
	defaultRefresh = 5 * time.Minute
)

// document is a bundle in its published form (SPIFFE Trust Domain and Bundle, section 4).
type document struct {
	Keys    []map[string]jsontext.Value `json:"keys"`
	Refresh *int64                      `json:"spiffe_refresh_hint"` // seconds
}

// parseBundle parses a bundle and returns it with its refresh hint. go-spiffe's own parser
// accepts the last of two members with the same name. It also panics under
// GODEBUG=fips140=only, because go-jose computes the SHA-1 of every certificate.
func parseBundle(td spiffeid.TrustDomain, b []byte) (*bundle, time.Duration, error) {
	// A private or symmetric key makes the whole bundle invalid, because its publisher has
	// disclosed a secret.
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
			if err == nil { // a key that is too weak or of an unknown type is skipped
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

// text returns the value of a JSON string, "" for other values.
func text(v jsontext.Value) (s string) {
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// anyUse parses a key whose use package jose does not know.
func anyUse(members map[string]jsontext.Value) (jose.Key, error) {
	rest := maps.Clone(members)
	delete(rest, "use")
	b, err := json.Marshal(rest)
	if err != nil {
		return jose.Key{}, err
	}
	return jose.ParseJWK(b)
}

// authority parses the only certificate of an X.509 authority.
func authority(x5c jsontext.Value) (*x509.Certificate, error) {
	var text []string
	if json.Unmarshal(x5c, &text) != nil || len(text) != 1 {
		return nil, errors.New("an X.509 authority of the bundle does not have exactly one certificate")
	}
	der, err := base64.StdEncoding.Strict().DecodeString(text[0])
	if err != nil {
		return nil, errors.New("a certificate of the bundle is not base64")
	}
	return x509.ParseCertificate(der)
}

// jwtKeys returns the keys that can verify signatures. A private or symmetric key is an
// error for all of them.
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
			continue // too weak, or of an unsupported type
		}
		k.Use = "jwt-svid"
		keys = append(keys, k)
	}
	return keys, nil
}

// newBundle returns a bundle. It refuses a certificate that is not a CA.
func newBundle(td spiffeid.TrustDomain, jwt []jose.Key, authorities []*x509.Certificate) (*bundle, error) {
	if len(jwt) > maxAuthorities || len(authorities) > maxAuthorities {
		return nil, fmt.Errorf("the bundle has more than %d keys of one use", maxAuthorities)
	}
	for _, c := range authorities {
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, errors.New("an X.509 authority of the bundle is not a CA certificate")
		}
	}
	set, err := jose.NewKeySet(jwt...)
	if err != nil {
		return nil, err
	}
	return &bundle{jwt: set, x509: x509bundle.FromX509Authorities(td, authorities)}, nil
}

// source is one trust domain: its accepted IDs, and its keys from the one source that the
// configuration names.
type source struct {
	td      spiffeid.TrustDomain
	allow   []pattern
	bundles *fetch.Cache[*bundle]
}

// reader fetches a bundle once and returns it with its lifetime.
type reader func(context.Context) (*bundle, time.Duration, error)

// newSource returns a source. It makes no connections.
func newSource(name string, t TrustDomain, c Config) (*source, error) {
	td, err := spiffeid.TrustDomainFromString(name)
	if err != nil {
		return nil, err
	}
	s := &source{td: td}
	for _, text := range t.Allow {
		p, err := parsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("allow: %w", err)
		}
		s.allow = append(s.allow, p)
	}
	var read reader
	var place string
	switch {
	case t.BundleFile != "":
		read, place = fileReader(td, t.BundleFile), t.BundleFile
	case t.HTTPSWeb != "":
		read, err = webReader(td, t, c)
		place = t.HTTPSWeb
	case t.HTTPSSPIFFE != "":
		read, err = spiffeReader(td, t, c)
		place = t.HTTPSSPIFFE
	default:
		read, err = workloadReader(td, t.WorkloadAPI)
		place = t.WorkloadAPI
	}
	if err != nil {
		return nil, err
	}
	s.bundles, err = fetch.NewCache(fetch.CacheConfig[*bundle]{Read: read, Name: place, Now: c.Now, Logger: c.Logger})
	return s, err
}

// fileReader returns a reader of a file. The file is read again every minute.
func fileReader(td spiffeid.TrustDomain, name string) reader {
	return func(context.Context) (*bundle, time.Duration, error) {
		b, err := fetch.ReadFile(name, maxBundle)
		if err != nil {
			return nil, 0, err
		}
		out, _, err := parseBundle(td, b)
		return out, 0, err
	}
}

// key returns the key of a JWT-SVID. When the key is missing, it fetches the bundle again
// once, because keys rotate.
func (s *source) key(ctx context.Context, h jose.Header) (jose.Key, error) {
	b, err := s.bundles.Get(ctx)
	if err != nil {
		return jose.Key{}, err
	}
	k, err := b.jwt.Key(h)
	if !errors.Is(err, jose.ErrKeyUnknown) {
		return k, err
	}
	anew, fetchErr := s.bundles.Renew(ctx)
	switch {
	case errors.Is(fetchErr, fetch.ErrNotDue): // the bundle has just been fetched, so the key does not exist
		return jose.Key{}, err
	case fetchErr != nil:
		return jose.Key{}, fetchErr
	}
	return anew.jwt.Key(h)
}

// webReader returns a reader for a bundle endpoint of profile https_web. The system's roots,
// or those of CAFile, authenticate the host (SPIFFE Federation, section 5.2.1).
func webReader(td spiffeid.TrustDomain, t TrustDomain, c Config) (reader, error) {
	f := c.Fetch
	f.Private, f.MaxBytes = t.Private, maxBundle
	if t.CAFile != "" {
		pem, err := fetch.ReadFile(t.CAFile, maxBundle)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		if f.RootCAs = x509.NewCertPool(); !f.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca_file contains no certificate; name a PEM file with CERTIFICATE blocks")
		}
	}
	place, err := fetch.NewPlace(t.HTTPSWeb, f)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*bundle, time.Duration, error) { return ask(ctx, td, place) }, nil
}

func ask(ctx context.Context, td spiffeid.TrustDomain, place *fetch.Place) (*bundle, time.Duration, error) {
	a, err := place.Get(ctx, "application/json")
	if err != nil {
		return nil, 0, err
	}
	return parseBundle(td, a.Body)
}

// endpoint is a bundle endpoint of profile https_spiffe. Its X.509-SVID proves that it has
// the pinned SPIFFE ID (SPIFFE Federation, section 5.2.2).
type endpoint struct {
	id   spiffeid.ID
	file string // bundle of the endpoint's own trust domain
	now  func() time.Time
	// latest is the last bundle from the endpoint, when that is the bundle of the endpoint's
	// own trust domain: its authorities rotate, and the file does not change.
	latest atomic.Pointer[bundle]
}

func spiffeReader(td spiffeid.TrustDomain, t TrustDomain, c Config) (reader, error) {
	id, err := parseID(t.EndpointID)
	if err != nil {
		return nil, fmt.Errorf("endpoint_id: %w", err)
	}
	e := &endpoint{id: id, file: t.EndpointBundleFile, now: c.Now}
	f := c.Fetch
	f.Private, f.MaxBytes, f.Authenticate = t.Private, maxBundle, e.authenticate
	place, err := fetch.NewPlace(t.HTTPSSPIFFE, f)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*bundle, time.Duration, error) {
		b, age, err := ask(ctx, td, place)
		if err == nil && id.TrustDomain() == td && len(b.x509.X509Authorities()) > 0 {
			e.latest.Store(b)
		}
		return b, age, err
	}, nil
}

// authenticate verifies the certificate of the endpoint.
func (e *endpoint) authenticate(state tls.ConnectionState) error {
	b := e.latest.Load()
	if b == nil {
		text, err := fetch.ReadFile(e.file, maxBundle)
		if err != nil {
			return err
		}
		if b, _, err = parseBundle(e.id.TrustDomain(), text); err != nil {
			return fmt.Errorf("%s: %w", e.file, err)
		}
	}
	id, _, err := x509svid.Verify(state.PeerCertificates, b.x509, x509svid.WithTime(e.now()))
	if err != nil {
		return fmt.Errorf("the bundle endpoint could not be authenticated: %w", err)
	}
	if id != e.id {
		return fmt.Errorf("the bundle endpoint has the SPIFFE ID %s, want %s from endpoint_id", id, e.id)
	}
	return nil
}
