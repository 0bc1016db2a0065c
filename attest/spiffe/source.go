package spiffe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
)

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
