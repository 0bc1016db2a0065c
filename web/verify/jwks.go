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

	"github.com/ebb-broker/ebb/attest/jose"
)

const (
	// keyBackoff is the shortest time between two fetches caused by tokens.
	keyBackoff = 10 * time.Second
	// keyWait is the longest time that one request waits for a fetch.
	keyWait = 3 * time.Second
	maxJWKS = 256 << 10
)

// keySource holds the issuer's keys: the last good set, even if later fetches
// fail. The feed limits that time, because it comes from the same server.
type keySource struct {
	url  string
	http *http.Client
	set  atomic.Pointer[keySet]
	gate chan attempt // holds the last fetch; one at a time
}

// attempt is a completed fetch.
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

// find is a jose.KeySource. An unknown kid causes a fetch, unless one was made
// within keyBackoff, so that strangers cannot turn their tokens into requests
// to the issuer.
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
			// The fetch failed, so the key may exist.
			return jose.Key{}, fetchErr
		}
		return key, err
	}
}

// refresh fetches the keys. If a fetch began less than least ago, it returns
// the result of that fetch. Waiting for another caller's fetch counts.
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
	// A client that disconnects must not cancel the fetch for others.
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
		return errors.New("verify: the issuer published no key; the previous keys stay in use")
	}
	next := &keySet{KeySet: set, text: text, gen: 1}
	if old != nil {
		next.gen = old.gen + 1
	}
	k.set.Store(next)
	return nil
}

// followKeys keeps the keys current. It retries sooner while there are none.
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
