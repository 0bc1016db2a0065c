package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// CacheConfig configures a Cache. Read and Name are required.
type CacheConfig[T any] struct {
	// Read fetches and parses the value once. It returns the lifetime that the origin
	// states, 0 without one.
	Read func(ctx context.Context) (T, time.Duration, error)
	// Name is the URL or path of the value, for errors and logs.
	Name string
	// MinAge and MaxAge bound how long a value is used before it is fetched again, regardless
	// of the lifetime that Read returns. Defaults 1 m and 1 h.
	MinAge, MaxAge time.Duration
	// MaxStale is how much longer the last good value is used while fetching fails. Default
	// 24 h.
	MaxStale time.Duration
	// BackOff is the minimum time between two fetches; a MinAge below it has no effect.
	// Default 30 s.
	BackOff time.Duration
	// Timeout is the timeout of one fetch. Default 5 s.
	Timeout time.Duration
	// Patience is how long a caller waits for a fetch that is due while a last good value
	// exists. Default 250 ms.
	Patience time.Duration
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time
	Logger *slog.Logger
}

// Cache has one value from one source. It is safe for concurrent use.
//
// The first caller of Get starts the first fetch. In the last quarter of the value's
// lifetime, a fetch in the background renews it. After its lifetime a caller waits for the
// fetch for at most Patience, and after a failed fetch not at all. So an outage of the
// source does not delay callers while a last good value exists. A value that the source has
// withdrawn is not used beyond its lifetime while the source is reachable.
type Cache[T any] struct {
	cfg CacheConfig[T]

	mu      sync.Mutex
	flying  *flight // nil when no fetch is in progress
	value   T
	loaded  time.Time // time of the last success, zero before the first
	fresh   time.Time // end of the value's lifetime
	early   time.Time // time from which a background fetch may renew the value
	tried   time.Time // time of the last attempt
	lastErr error     // result of the last attempt
}

// NewCache checks the configuration. The first call of Get fetches the value.
func NewCache[T any](c CacheConfig[T]) (*Cache[T], error) {
	if c.Read == nil || c.Name == "" {
		return nil, errors.New("fetch: the cache configuration needs both Read and Name")
	}
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&c.MinAge, time.Minute},
		{&c.MaxAge, time.Hour},
		{&c.MaxStale, 24 * time.Hour},
		{&c.BackOff, 30 * time.Second},
		{&c.Timeout, 5 * time.Second},
		{&c.Patience, 250 * time.Millisecond},
	} {
		if *d.at <= 0 {
			*d.at = d.def
		}
	}
	if c.MaxAge < c.MinAge {
		return nil, fmt.Errorf("fetch: cache: the maximum age %s is below the minimum age %s; raise the maximum", c.MaxAge, c.MinAge)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Cache[T]{cfg: c}, nil
}

// Get returns a value that may be used now, or an error that gives the reason why no such
// value exists.
func (c *Cache[T]) Get(ctx context.Context) (T, error) {
	c.mu.Lock()
	v, s := c.value, c.standing()
	c.mu.Unlock()
	switch {
	case s == good:
		return v, nil
	case s == aging: // also a value past its lifetime whose last fetch has failed
		c.start(ctx)
		return v, nil
	}
	err := c.wait(ctx, s == due)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usable() {
		return c.value, nil
	}
	if err == nil {
		err = c.lastErr
	}
	var none T
	return none, &noneError{name: c.cfg.Name, cause: err}
}

// Renew fetches the value again, for a caller that did not find an item, such as a key, in
// it. It fetches once per BackOff for all callers together. When no fetch is due yet, it
// returns the error of the last fetch, or ErrNotDue if that fetch succeeded; then the item
// does not exist.
func (c *Cache[T]) Renew(ctx context.Context) (T, error) {
	var none T
	c.mu.Lock()
	may, last := c.mayTry(), c.lastErr
	c.mu.Unlock()
	if !may {
		if last == nil {
			last = ErrNotDue
		}
		return none, last
	}
	if err := c.wait(ctx, false); err != nil {
		return none, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, nil
}

// ErrNotDue means that the last fetch succeeded less than BackOff ago.
var ErrNotDue = errors.New("fetch: the value has just been fetched")

// noneError means that no usable value exists.
type noneError struct {
	name  string
	cause error
}

func (e *noneError) Error() string {
	return "fetch: no usable answer from " + e.name + ": " + e.cause.Error()
}

func (e *noneError) Unwrap() error { return e.cause }

// standing says whether a value may be used at a given time and whether it must be fetched.
type standing int

const (
	absent standing = iota // no value, or one too old to use: wait for the fetch
	due                    // past its lifetime, and the last fetch succeeded: wait for at most Patience
	aging                  // usable; a fetch in the background may start
	good                   // usable
)

func (c *Cache[T]) standing() standing {
	now := c.cfg.Now()
	switch {
	case !c.usable():
		return absent
	case now.Before(c.early):
		return good
	case !c.mayTry():
		return good // the last good value is used until the back-off ends
	case now.Before(c.fresh) || c.lastErr != nil:
		return aging
	}
	return due
}

// usable reports whether the value may be used at all.
func (c *Cache[T]) usable() bool {
	return !c.loaded.IsZero() && c.cfg.Now().Before(c.fresh.Add(c.cfg.MaxStale))
}

func (c *Cache[T]) mayTry() bool {
	return c.tried.IsZero() || c.cfg.Now().Sub(c.tried) >= c.cfg.BackOff
}

// flight is one fetch in progress, shared by all callers that wait for it.
type flight struct {
	landed chan struct{} // closed when the fetch ends
	err    error         // set before landed is closed
}

// start begins a fetch, or returns the one in progress. It does not wait.
func (c *Cache[T]) start(ctx context.Context) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying != nil {
		return c.flying
	}
	f := &flight{landed: make(chan struct{})}
	c.flying = f
	go func() {
		f.err = c.fetch(ctx)
		c.mu.Lock()
		c.flying = nil
		c.mu.Unlock()
		close(f.landed)
	}()
	return f
}

// wait waits for a fetch, if one is due, until the fetch or ctx ends. When a last good value
// exists, it waits for at most Patience.
func (c *Cache[T]) wait(ctx context.Context, lastGood bool) error {
	c.mu.Lock()
	may, last := c.mayTry(), c.lastErr
	c.mu.Unlock()
	if !may {
		return last
	}
	var patience <-chan time.Time
	if lastGood {
		t := time.NewTimer(c.cfg.Patience)
		defer t.Stop()
		patience = t.C
	}
	f := c.start(ctx)
	select {
	case <-ctx.Done():
		return fmt.Errorf("fetch: waiting for %s: %w", c.cfg.Name, ctx.Err())
	case <-patience:
		return nil
	case <-f.landed:
		return f.err
	}
}

// fetch loads the value once for all callers that wait. It continues when the caller that
// started it is cancelled, because other callers may wait for it.
func (c *Cache[T]) fetch(ctx context.Context) error {
	c.mu.Lock()
	may, last := c.mayTry(), c.lastErr
	c.mu.Unlock()
	if !may { // another fetch ended after the check
		return last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	v, age, err := c.cfg.Read(ctx)
	return c.settle(v, age, err)
}

func (c *Cache[T]) settle(v T, age time.Duration, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Now()
	c.tried, c.lastErr = now, err
	if err != nil {
		c.cfg.Logger.Warn("fetch failed; the last good value remains in use until it is too old", "place", c.cfg.Name, "error", err, "last_good", c.loaded)
		return err
	}
	life := min(max(age, c.cfg.MinAge), c.cfg.MaxAge)
	c.value, c.loaded, c.fresh, c.early = v, now, now.Add(life), now.Add(life-life/4)
	return nil
}

// Await waits for the first byte of a response body, for responses that begin immediately
// and continue when there is news, such as a watch of Kubernetes. It returns nil at the
// first byte of the body of a 200, or at its end. Only ctx bounds the wait for the body.
func (p *Place) Await(ctx context.Context, r Request) error {
	req, err := p.request(ctx, r)
	if err != nil {
		return err
	}
	start, status := time.Now(), 0
	resp, err := p.client.Do(req)
	if err == nil {
		defer resp.Body.Close() //nolint:errcheck // read-only body
		status = resp.StatusCode
	}
	if p.cfg.Observe != nil {
		p.cfg.Observe(Event{Place: p.written, Took: time.Since(start), Status: status})
	}
	switch {
	case err != nil:
	case status != http.StatusOK:
		err = fmt.Errorf("status %d", status)
	default:
		if _, err = resp.Body.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("fetch %s: %w", p.written, unwrapURL(err))
	}
	return nil
}
