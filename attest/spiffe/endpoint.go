package spiffe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/ebb-broker/ebb/attest/fetch"
)

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
