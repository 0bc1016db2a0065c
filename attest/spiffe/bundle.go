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

// source is one trust domain: which of its IDs are accepted, and its keys, from
// the one place that configuration pins.
type source struct {
	td      spiffeid.TrustDomain
	allow   []pattern
	bundles *fetch.Cache[*bundle]
}

// reader fetches a bundle once and says for how long it is good.
type reader func(context.Context) (*bundle, time.Duration, error)

// newSource connects to nothing.
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

// fileReader reads again every minute: whoever writes the file is near.
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

// key finds the key of a JWT-SVID. One that is not there is looked for once more,
// in a bundle fetched anew: keys rotate.
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
	case errors.Is(fetchErr, fetch.ErrNotDue): // it has just been fetched: the key is not there
		return jose.Key{}, err
	case fetchErr != nil:
		return jose.Key{}, fetchErr
	}
	return anew.jwt.Key(h)
}

// webReader asks a bundle endpoint of profile https_web: the web's authorities, or
// those of CAFile, say that it is the host (SPIFFE Federation, section 5.2.1).
func webReader(td spiffeid.TrustDomain, t TrustDomain, c Config) (reader, error) {
	f := c.Fetch
	f.Private, f.MaxBytes = t.Private, maxBundle
	if t.CAFile != "" {
		pem, err := fetch.ReadFile(t.CAFile, maxBundle)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		if f.RootCAs = x509.NewCertPool(); !f.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca_file holds no certificate; name a PEM file with CERTIFICATE blocks")
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

// endpoint is a bundle endpoint of profile https_spiffe: its X.509-SVID says that
// it is the one with the pinned SPIFFE ID (SPIFFE Federation, section 5.2.2).
type endpoint struct {
	id   spiffeid.ID
	file string // bundle of the endpoint's own trust domain
	now  func() time.Time
	// latest is what the endpoint served last, when that is the bundle of its own
	// trust domain: its authorities rotate, and the file does not.
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

// authenticate judges the certificate of the endpoint.
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
		return fmt.Errorf("the bundle endpoint is not authentic: %w", err)
	}
	if id != e.id {
		return fmt.Errorf("the bundle endpoint is %s and not %s", id, e.id)
	}
	return nil
}
