package jose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
)

// CacheConfig configures a KeyCache. Exactly one of Set, URL and File is required.
type CacheConfig struct {
	// Set is the JWK Set itself.
	Set []byte
	// URL of a JWK Set: https, or http on a loopback address. Redirects are not
	// followed.
	URL string
	// File with a JWK Set, read again when it may have changed.
	File string
	// Fetch says how the URL may be asked. Its MaxBytes is set here.
	Fetch fetch.Config
	// MinAge, MaxAge, MaxStale, BackOff, Timeout and their defaults are those of
	// fetch.CacheConfig.
	MinAge, MaxAge, MaxStale, BackOff, Timeout time.Duration
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time
	Logger *slog.Logger
}

// KeyCache is the key set of one issuer, from one place that configuration
// names. It is safe for concurrent use. Tokens cannot steer it anywhere: the
// most that they can cause is one fetch per BackOff, by an unknown kid.
type KeyCache struct {
	sets  *fetch.Cache[KeySet]
	fixed KeySet // without sets
}

// OnePlace says whether the configuration names exactly one place of the key set.
func (c CacheConfig) OnePlace() bool {
	places := 0
	for _, named := range []bool{len(c.Set) > 0, c.File != "", c.URL != ""} {
		if named {
			places++
		}
	}
	return places == 1
}

// NewKeyCache checks the configuration. Nothing is fetched before the first use.
func NewKeyCache(c CacheConfig) (*KeyCache, error) {
	if !c.OnePlace() {
		return nil, errors.New("jose: key cache: set exactly one of a JWK set, its URL and its file")
	}
	if len(c.Set) > 0 {
		set, err := ParseJWKS(c.Set)
		if err == nil && len(set.Keys()) == 0 {
			err = errors.New("jwks: no usable key in the set")
		}
		return &KeyCache{fixed: set}, err
	}
	read, err := readSet(c)
	if err != nil {
		return nil, fmt.Errorf("jose: key cache: %w", err)
	}
	sets, err := fetch.NewCache(fetch.CacheConfig[KeySet]{
		Read: read, Name: c.URL + c.File, MinAge: c.MinAge, MaxAge: c.MaxAge, MaxStale: c.MaxStale,
		BackOff: c.BackOff, Timeout: c.Timeout, Now: c.Now, Logger: c.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("jose: key cache: %w", err)
	}
	return &KeyCache{sets: sets}, nil
}

func readSet(c CacheConfig) (func(context.Context) (KeySet, time.Duration, error), error) {
	if c.File != "" {
		return func(context.Context) (KeySet, time.Duration, error) {
			b, err := fetch.ReadFile(c.File, maxJWKS)
			if err != nil {
				return KeySet{}, 0, err
			}
			set, err := ParseJWKS(b)
			return set, 0, err
		}, nil
	}
	c.Fetch.MaxBytes, c.Fetch.Timeout = maxJWKS, c.Timeout
	place, err := fetch.NewPlace(c.URL, c.Fetch)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (KeySet, time.Duration, error) {
		a, err := place.Get(ctx, "application/jwk-set+json, application/json")
		if err != nil {
			return KeySet{}, 0, err
		}
		set, err := ParseJWKS(a.Body)
		return set, a.MaxAge, err
	}, nil
}

// Key finds a key like KeySet.Key. An unknown kid makes it fetch the set again,
// once per BackOff for all callers together. Errors that do not match ErrToken
// mean that the keys could not be loaded: with a set that was fetched all right an
// unknown key is the token's fault; if the last fetch failed the key may exist,
// and nobody can say.
func (k *KeyCache) Key(ctx context.Context, h Header) (Key, error) {
	if k.sets == nil {
		return k.fixed.Key(h)
	}
	set, err := k.sets.Get(ctx)
	if err != nil {
		return Key{}, err
	}
	key, err := set.Key(h)
	if !errors.Is(err, ErrKeyUnknown) {
		return key, err
	}
	renewed, fetchErr := k.sets.Renew(ctx)
	switch {
	case errors.Is(fetchErr, fetch.ErrNotDue):
		return Key{}, err
	case fetchErr != nil:
		return Key{}, fetchErr
	}
	return renewed.Key(h)
}
