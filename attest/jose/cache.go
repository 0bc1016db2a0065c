package jose

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// CacheConfig configures a KeyCache. Exactly one of URL and File is required.
type CacheConfig struct {
	// URL of a JWK Set: https, or http on a loopback address. Redirects are not
	// followed.
	URL string
	// File with a JWK Set, read again when it may have changed.
	File string
	// MinAge and MaxAge bound how long a set is used before it is fetched again,
	// whatever Cache-Control says. Defaults 1 m and 1 h.
	MinAge, MaxAge time.Duration
	// MaxStale is how long the last good set serves while it cannot be fetched
	// again. Default 24 h.
	MaxStale time.Duration
	// BackOff is the shortest time between two fetches, except that the end of
	// MinAge is one too. Default 30 s.
	BackOff time.Duration
	// Timeout of one fetch. Default 5 s.
	Timeout time.Duration
	// HTTPClient is borrowed for its transport. nil: one of its own.
	HTTPClient *http.Client
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time
	Logger *slog.Logger
}

// KeyCache is the key set of one issuer, from one place that configuration
// names. It is safe for concurrent use. Tokens cannot steer it anywhere: the
// most that they can cause is one fetch per BackOff, by an unknown kid.
type KeyCache struct {
	cfg    CacheConfig
	source source
	flight singleflight.Group

	mu      sync.Mutex
	set     KeySet
	loaded  time.Time // last success, zero = never
	fresh   time.Time // the set need not be fetched before
	tried   time.Time // last attempt
	lastErr error     // of the last attempt
}

// NewKeyCache checks the configuration. Nothing is fetched before the first use.
func NewKeyCache(c CacheConfig) (*KeyCache, error) {
	src, err := newSource(c)
	if err != nil {
		return nil, err
	}
	for d, def := range map[*time.Duration]time.Duration{
		&c.MinAge: time.Minute, &c.MaxAge: time.Hour, &c.MaxStale: 24 * time.Hour, &c.BackOff: 30 * time.Second, &c.Timeout: 5 * time.Second,
	} {
		if *d <= 0 {
			*d = def
		}
	}
	if c.MaxAge < c.MinAge {
		return nil, errors.New("jose: key cache: max age is below min age")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &KeyCache{cfg: c, source: src}, nil
}

// Key finds a key like KeySet.Key. An unknown kid makes it fetch the set again,
// once per BackOff for all callers together. Errors that do not match ErrToken
// mean that the keys could not be loaded.
func (k *KeyCache) Key(ctx context.Context, h Header) (Key, error) {
	set, err := k.current(ctx)
	if err != nil {
		return Key{}, err
	}
	key, err := set.Key(h)
	if !errors.Is(err, ErrKeyUnknown) {
		return key, err
	}
	if !k.mayTry() {
		return Key{}, k.blame(err)
	}
	if fetchErr := k.fetch(ctx); fetchErr != nil {
		return Key{}, fetchErr
	}
	k.mu.Lock()
	set = k.set
	k.mu.Unlock()
	return set.Key(h)
}

// blame decides whose fault an unknown key is while no fetch is due: with a set
// that was fetched all right it is the token's; if the last fetch failed the key
// may exist, and nobody can say.
func (k *KeyCache) blame(unknown error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lastErr != nil {
		return k.lastErr
	}
	return unknown
}

// current returns a set that may be used now, fetching it when it is due.
func (k *KeyCache) current(ctx context.Context) (KeySet, error) {
	now := k.cfg.Now()
	k.mu.Lock()
	set, due, have := k.set, !now.Before(k.fresh), !k.loaded.IsZero()
	k.mu.Unlock()
	if have && !due {
		return set, nil
	}
	var err error
	if k.mayTry() {
		err = k.fetch(ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.loaded.IsZero() && k.cfg.Now().Before(k.fresh.Add(k.cfg.MaxStale)) {
		return k.set, nil
	}
	if err == nil {
		err = k.lastErr
	}
	return KeySet{}, fmt.Errorf("jose: no usable key set: %w", err)
}

func (k *KeyCache) mayTry() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tried.IsZero() || k.cfg.Now().Sub(k.tried) >= k.cfg.BackOff
}

// fetch loads the set once for all who wait. It goes on when the caller that
// started it hangs up, since others may wait for it.
func (k *KeyCache) fetch(ctx context.Context) error {
	done := k.flight.DoChan("", func() (any, error) {
		if !k.mayTry() { // another flight landed between the check and here
			return nil, k.outcome()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.Timeout)
		defer cancel()
		raw, age, err := k.source.read(ctx)
		var set KeySet
		if err == nil {
			set, err = ParseJWKS(raw)
		}
		return nil, k.settle(set, age, err)
	})
	select {
	case <-ctx.Done():
		return fmt.Errorf("jose: waiting for a key set: %w", ctx.Err())
	case r := <-done:
		return r.Err
	}
}

func (k *KeyCache) outcome() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lastErr
}

func (k *KeyCache) settle(set KeySet, age time.Duration, err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	k.tried, k.lastErr = now, err
	if err != nil {
		k.lastErr = fmt.Errorf("jose: fetch key set: %w", err)
		k.cfg.Logger.Warn("key set not fetched", "source", k.source.name(), "err", err, "last_good", k.loaded)
		return k.lastErr
	}
	k.set, k.loaded = set, now
	k.fresh = now.Add(min(max(age, k.cfg.MinAge), k.cfg.MaxAge))
	return nil
}
