package jose_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
)

func newCache(t *testing.T, c jose.CacheConfig) *jose.KeyCache {
	t.Helper()
	k, err := jose.NewKeyCache(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func issuerAndCache(t *testing.T) (*attesttest.Clock, *attesttest.Issuer, *jose.KeyCache) {
	t.Helper()
	clock := attesttest.NewClock()
	i := attesttest.NewIssuer(t, clock)
	return clock, i, newCache(t, jose.CacheConfig{URL: i.JWKSURL, Now: clock.Now})
}

func header(kid string) jose.Header { return jose.Header{Alg: jose.ES256, KID: kid} }

// TestCacheRotation: a new key is found by one fetch, a made-up kid causes no
// more than one per back-off, and a retired key dies with the next fetch.
func TestCacheRotation(t *testing.T) {
	t.Parallel()
	clock, i, cache := issuerAndCache(t)
	get := func(kid string) error { _, err := cache.Key(t.Context(), header(kid)); return err }
	fetches := func(want int) {
		t.Helper()
		if got := i.Fetches(); got != want {
			t.Fatalf("got %d fetches, want %d", got, want)
		}
	}
	for range 5 {
		if err := get("key-1"); err != nil {
			t.Fatal(err)
		}
	}
	fetches(1)
	i.Rotate()
	if err := get("key-2"); !errors.Is(err, jose.ErrKeyUnknown) {
		t.Errorf("within the back-off: got %v", err)
	}
	fetches(1)
	clock.Advance(30 * time.Second)
	if err := get("key-2"); err != nil {
		t.Errorf("after the back-off: %v", err)
	}
	fetches(2)
	for range 100 {
		if err := get("made-up"); !errors.Is(err, jose.ErrKeyUnknown) {
			t.Fatalf("made-up: got %v", err)
		}
	}
	fetches(2)
	clock.Advance(30 * time.Second)
	for range 100 {
		get("made-up") //nolint:errcheck // counted below
	}
	fetches(3)
	i.Retire()
	if err := get("key-1"); err != nil {
		t.Errorf("retired, but the set is still fresh: %v", err)
	}
	clock.Advance(time.Minute)
	// A caller waits a short while for the fetch, and then gets the last good set.
	for end := time.Now().Add(2 * time.Minute); get("key-1") == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := get("key-1"); !errors.Is(err, jose.ErrKeyUnknown) {
		t.Errorf("retired: got %v", err)
	}
	fetches(4)
}

// TestCacheOutage: the last good set serves, for a while; a kid that it lacks
// cannot be judged.
func TestCacheOutage(t *testing.T) {
	t.Parallel()
	clock, i, cache := issuerAndCache(t)
	i.Answer(http.StatusServiceUnavailable)
	if _, err := cache.Key(t.Context(), header("key-1")); err == nil || errors.Is(err, jose.ErrToken) {
		t.Fatalf("never loaded: got %v, want could-not-judge", err)
	}
	for range 10 {
		cache.Key(t.Context(), header("key-1")) //nolint:errcheck // counted below
	}
	if n := i.Fetches(); n != 1 {
		t.Errorf("%d fetches within the back-off", n)
	}
	i.Answer(http.StatusOK)
	clock.Advance(30 * time.Second)
	if _, err := cache.Key(t.Context(), header("key-1")); err != nil {
		t.Fatalf("back again: %v", err)
	}
	i.Answer(http.StatusInternalServerError)
	clock.Advance(2 * time.Hour)
	if _, err := cache.Key(t.Context(), header("key-1")); err != nil {
		t.Errorf("last good: %v", err)
	}
	if _, err := cache.Key(t.Context(), header("key-2")); err == nil || errors.Is(err, jose.ErrToken) {
		t.Errorf("unknown kid in an outage: got %v, want could-not-judge", err)
	}
	clock.Advance(25 * time.Hour)
	if _, err := cache.Key(t.Context(), header("key-1")); err == nil || errors.Is(err, jose.ErrToken) {
		t.Errorf("too stale: got %v, want could-not-judge", err)
	}
}

// TestCacheHostileOrigin: the cache accepts no key from an invalid response of the key endpoint,
// and follows no redirect.
func TestCacheHostileOrigin(t *testing.T) {
	t.Parallel()
	trap := attesttest.NewTrap(t)
	for name, h := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, trap.URL, http.StatusFound) },
		"redirect308": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, trap.URL, http.StatusPermanentRedirect)
		},
		"html": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, //nolint:errcheck // test
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(strings.Repeat(" ", 300<<10) + `{"keys":[]}`))
		}, //nolint:errcheck // test
		"private": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"keys":[{"kty":"oct","k":"AA"}]}`)) }, //nolint:errcheck // test
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"201": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.Write([]byte(`{"keys":[]}`))
		}, //nolint:errcheck // test
	} {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		if _, err := newCache(t, jose.CacheConfig{URL: s.URL}).Key(t.Context(), header("x")); err == nil || errors.Is(err, jose.ErrToken) {
			t.Errorf("%s: got %v, want could-not-judge", name, err)
		}
	}
	if trap.Dials() != 0 {
		t.Error("a redirect was followed")
	}
}

// TestCacheSlowOrigin: callers may leave; those who stay share one fetch.
func TestCacheSlowOrigin(t *testing.T) {
	t.Parallel()
	var fetches atomic.Int64
	entered, release := make(chan struct{}, 16), make(chan struct{})
	key := newKey(t, "k", &p256(t).PublicKey)
	set, err := jose.MarshalJWKS(key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		entered <- struct{}{}
		<-release
		w.Write(set) //nolint:errcheck // the client has gone
	}))
	t.Cleanup(s.Close)
	cache := newCache(t, jose.CacheConfig{URL: s.URL})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := cache.Key(ctx, header("k")); left <- err }()
	<-entered
	var wg sync.WaitGroup
	for range 15 {
		wg.Go(func() {
			if _, err := cache.Key(t.Context(), header("k")); err != nil {
				t.Errorf("one who waited: %v", err)
			}
		})
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("one who left: got %v", err)
	}
	close(release)
	wg.Wait()
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches for 16 callers", n)
	}
}

// TestCacheAge: Cache-Control counts within our bounds.
func TestCacheAge(t *testing.T) {
	t.Parallel()
	for control, fresh := range map[string]time.Duration{
		"":                          time.Minute,
		"max-age=600":               10 * time.Minute,
		"public, Max-Age=600":       10 * time.Minute,
		"max-age=1":                 time.Minute,
		"max-age=99999999":          time.Hour,
		"max-age=99999999999999999": time.Minute,
		"max-age=-1":                time.Minute,
		"no-store, max-age=600":     time.Minute,
	} {
		clock := attesttest.NewClock()
		var fetches atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fetches.Add(1)
			w.Header().Set("Cache-Control", control)
			w.Write([]byte(`{"keys":[` + rfc9449JWK + `]}`)) //nolint:errcheck // test
		}))
		t.Cleanup(s.Close)
		cache := newCache(t, jose.CacheConfig{URL: s.URL, Now: clock.Now})
		for _, step := range []time.Duration{0, fresh - time.Second, time.Second} {
			clock.Advance(step)
			if _, err := cache.Key(t.Context(), header("")); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(2 * time.Minute); fetches.Load() < 2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // the fetch runs in the background, because callers get the last good set without a long wait
		}
		if n := fetches.Load(); n != 2 {
			t.Errorf("%q: %d fetches, want the second at %v", control, n, fresh)
		}
	}
}

func TestCacheFile(t *testing.T) {
	t.Parallel()
	clock := attesttest.NewClock()
	name := filepath.Join(t.TempDir(), "jwks.json")
	write := func(keys ...jose.Key) {
		t.Helper()
		b, err := jose.MarshalJWKS(keys...)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache := newCache(t, jose.CacheConfig{File: name, Now: clock.Now})
	if _, err := cache.Key(t.Context(), header("a")); err == nil || errors.Is(err, jose.ErrToken) {
		t.Errorf("no file: got %v", err)
	}
	write(newKey(t, "a", &p256(t).PublicKey))
	clock.Advance(time.Minute)
	if _, err := cache.Key(t.Context(), header("a")); err != nil {
		t.Error(err)
	}
	write(newKey(t, "b", &p256(t).PublicKey))
	clock.Advance(time.Minute)
	if _, err := cache.Key(t.Context(), header("b")); err != nil {
		t.Errorf("changed file: %v", err)
	}
}

func TestCacheConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]jose.CacheConfig{
		"nothing":   {},
		"both":      {URL: "https://i.example/", File: "x"},
		"http":      {URL: "http://i.example/"},
		"metadata":  {URL: "http://169.254.169.254/"},
		"loop name": {URL: "http://localhost.evil.example/"},
		"ftp":       {URL: "ftp://i.example/"},
		"file":      {URL: "file:///etc/passwd"},
		"user":      {URL: "https://a@i.example/"},
		"fragment":  {URL: "https://i.example/#a"},
		"relative":  {URL: "/jwks"},
		"ages":      {URL: "https://i.example/", MinAge: time.Hour, MaxAge: time.Minute},
	} {
		if k, err := jose.NewKeyCache(c); k != nil || err == nil {
			t.Errorf("%s: got %v, %v", name, k, err)
		}
	}
	for _, u := range []string{"https://i.example/jwks?v=1", "http://127.0.0.1:8080/jwks", "http://[::1]/jwks", "http://localhost/jwks"} {
		if _, err := jose.NewKeyCache(jose.CacheConfig{URL: u}); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}
