package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"ebb/attest/jose"
)

const (
	// keyBackoff is the least time between two fetches that tokens cause.
	keyBackoff = 10 * time.Second
	// keyWait is how long one request waits for a fetch.
	keyWait = 3 * time.Second
	maxJWKS = 256 << 10
)

// keySource holds the issuer's keys: the last good set, whatever happened to the
// fetches after it. How long that may go on is bounded by the feed, which comes
// from the same place.
type keySource struct {
	url  string
	http *http.Client
	set  atomic.Pointer[keySet]
	gate chan attempt // holds the last fetch; one at a time
}

// attempt is a fetch that was made.
type attempt struct {
	began time.Time
	err   error
}

type keySet struct {
	jose.KeySet
	text []byte
	gen  uint64 // grows when the text changes
}

func newKeySource(url string, hc *http.Client) *keySource {
	k := &keySource{url: url, http: hc, gate: make(chan attempt, 1)}
	k.gate <- attempt{}
	return k
}

func (k *keySource) loaded() bool { return k.set.Load() != nil }

func (k *keySource) generation() uint64 {
	if s := k.set.Load(); s != nil {
		return s.gen
	}
	return 0
}

var errNoKeys = errors.New("verify: the keys of the issuer were never read")

// find is a jose.KeySource. A kid that is not known makes it fetch the keys,
// unless that was tried a moment ago: strangers must not be able to turn their
// tokens into requests to the issuer.
func (k *keySource) find(ctx context.Context, now time.Time) jose.KeySource {
	return func(h jose.Header) (jose.Key, error) {
		set := k.set.Load()
		if set != nil {
			key, err := set.Key(h)
			if !errors.Is(err, jose.ErrKeyUnknown) {
				return key, err
			}
		}
		fetchErr := k.refresh(ctx, now, keyBackoff)
		if set = k.set.Load(); set == nil {
			return jose.Key{}, errors.Join(errNoKeys, fetchErr)
		}
		key, err := set.Key(h)
		if errors.Is(err, jose.ErrKeyUnknown) && fetchErr != nil {
			// The key may be there, and could not be looked up.
			return jose.Key{}, fetchErr
		}
		return key, err
	}
}

// refresh fetches the keys unless a fetch began less than least ago; then its
// outcome is that one's. Waiting for the fetch of somebody else counts.
func (k *keySource) refresh(ctx context.Context, now time.Time, least time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, keyWait)
	defer cancel()
	var last attempt
	select {
	case last = <-k.gate:
	case <-ctx.Done():
		return fmt.Errorf("verify: keys of the issuer: %w", ctx.Err())
	}
	defer func() { k.gate <- last }()
	if since := now.Sub(last.began); !last.began.IsZero() && since >= 0 && since < least {
		return last.err
	}
	// A client that hangs up must not spoil the fetch for the others.
	fetching, stop := context.WithTimeout(context.WithoutCancel(ctx), keyWait)
	defer stop()
	last = attempt{began: now, err: k.fetch(fetching)}
	return last.err
}

func (k *keySource) fetch(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return fmt.Errorf("verify: keys of the issuer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("verify: keys of the issuer: status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJWKS+1))
	if err != nil {
		return fmt.Errorf("verify: keys of the issuer: %w", err)
	}
	old := k.set.Load()
	if old != nil && bytes.Equal(old.text, text) {
		return nil
	}
	set, err := jose.ParseJWKS(text)
	if err != nil {
		return fmt.Errorf("verify: keys of the issuer: %w", err)
	}
	if len(set.Keys()) == 0 {
		return errors.New("verify: the issuer published no key; the last ones stay")
	}
	next := &keySet{KeySet: set, text: text, gen: 1}
	if old != nil {
		next.gen = old.gen + 1
	}
	k.set.Store(next)
	return nil
}

// followKeys keeps the keys up to date, sooner while there are none.
func (v *Verifier) followKeys(ctx context.Context) {
	for ctx.Err() == nil {
		pause := v.cfg.JWKSEvery
		if err := v.keys.refresh(ctx, v.cfg.Now(), time.Second); err != nil && ctx.Err() == nil {
			v.cfg.Log.WarnContext(ctx, "keys of the issuer", slog.Any("error", err))
			pause = min(pause, keyBackoff)
		}
		if !v.keys.loaded() {
			pause = time.Second
		}
		sleep(ctx, pause)
	}
}
