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
	// Read fetches and parses the value once, and says how long its origin calls
	// it good, 0 if it does not.
	Read func(ctx context.Context) (T, time.Duration, error)
	// Name is the value's place, for errors and logs.
	Name string
	// MinAge and MaxAge bound how long a value is used before it is fetched again,
	// whatever its origin says. Defaults 1 m and 1 h.
	MinAge, MaxAge time.Duration
	// MaxStale is how long beyond that the last good value serves while it cannot
	// be fetched again. Default 24 h.
	MaxStale time.Duration
	// BackOff is the shortest time between two fetches, except that the end of
	// MinAge is one too. Default 30 s.
	BackOff time.Duration
	// Timeout of one fetch. Default 5 s.
	Timeout time.Duration
	// Patience is how long a caller waits for a fetch that is due while a last good
	// value would do. Default 250 ms.
	Patience time.Duration
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time
	Logger *slog.Logger
}

// Cache is one value from one place. It is safe for concurrent use.
//
// A value is fetched when it is first asked for. In the last quarter of its age
// it is fetched again behind the callers' backs. Past its age a caller waits for
// the fetch, for a short while; when the fetch before has failed, not at all. So a
// place that is down costs its users nothing while a last good value lives, and
// a value that was withdrawn does not outlive its age where the place answers.
type Cache[T any] struct {
	cfg CacheConfig[T]

	mu      sync.Mutex
	flying  *flight // nil = none is under way
	value   T
	loaded  time.Time // last success, zero = never
	fresh   time.Time // the value need not be fetched before
	early   time.Time // from here on it may be
	tried   time.Time // last attempt
	lastErr error     // of the last attempt
}

// NewCache checks the configuration. Nothing is fetched before the first use.
func NewCache[T any](c CacheConfig[T]) (*Cache[T], error) {
	if c.Read == nil || c.Name == "" {
		return nil, errors.New("fetch: a cache needs Read and Name")
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
		return nil, errors.New("fetch: cache: max age is below min age")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Cache[T]{cfg: c}, nil
}

// Get returns a value that may be used now. An error means that there is none
// and says why.
func (c *Cache[T]) Get(ctx context.Context) (T, error) {
	c.mu.Lock()
	v, s := c.value, c.standing()
	c.mu.Unlock()
	switch {
	case s == good:
		return v, nil
	case s == aging: // also a value past its age whose place has just failed
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

// Renew is for a caller that did not find what it needs in the value, such as a
// key: it fetches again, once per BackOff for all callers together. When no fetch
// is due yet, it gives the error of the last fetch, or ErrNotDue if that was good:
// then what is missing is not there.
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

// ErrNotDue means that the value was fetched all right a moment ago.
var ErrNotDue = errors.New("fetch: the value has just been fetched")

// noneError is the end of every doubt: there is no usable value.
type noneError struct {
	name  string
	cause error
}

func (e *noneError) Error() string {
	return "fetch: no usable answer from " + e.name + ": " + e.cause.Error()
}

func (e *noneError) Unwrap() error { return e.cause }

// standing is what a value is worth at a moment.
type standing int

const (
	absent standing = iota // none, or too old to serve: wait for the fetch
	due                    // past its age, its place is believed to be up: wait a little
	aging                  // serves; a fetch may start behind the caller's back
	good                   // serves
)

func (c *Cache[T]) standing() standing {
	now := c.cfg.Now()
	switch {
	case !c.usable():
		return absent
	case now.Before(c.early):
		return good
	case !c.mayTry():
		return good // last good, until the back-off ends
	case now.Before(c.fresh) || c.lastErr != nil:
		return aging
	}
	return due
}

// usable reports whether the value may serve at all.
func (c *Cache[T]) usable() bool {
	return !c.loaded.IsZero() && c.cfg.Now().Before(c.fresh.Add(c.cfg.MaxStale))
}

func (c *Cache[T]) mayTry() bool {
	return c.tried.IsZero() || c.cfg.Now().Sub(c.tried) >= c.cfg.BackOff
}

// flight is one fetch under way, for all who wait for it.
type flight struct {
	landed chan struct{} // closed at its end
	err    error         // then
}

// start begins a fetch, or joins the one under way, and does not wait.
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

// wait waits for a fetch, if one is due, until it has landed, ctx ends or, with
// a last good value at hand, patience does.
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

// fetch loads the value once for all who wait. It goes on when the caller that
// started it hangs up, since others may wait for it.
func (c *Cache[T]) fetch(ctx context.Context) error {
	c.mu.Lock()
	may, last := c.mayTry(), c.lastErr
	c.mu.Unlock()
	if !may { // another flight landed between the check and here
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
		c.cfg.Logger.Warn("not fetched; the last good answer serves while it may", "place", c.cfg.Name, "error", err, "last_good", c.loaded)
		return err
	}
	life := min(max(age, c.cfg.MinAge), c.cfg.MaxAge)
	c.value, c.loaded, c.fresh, c.early = v, now, now.Add(life), now.Add(life-life/4)
	return nil
}

// Await is for answers that begin at once and go on when there is news, such as a
// watch of Kubernetes: it returns nil with the first byte of the body of a 200, or
// with its end. The body's wait is bounded by ctx alone.
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
