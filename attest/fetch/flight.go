package fetch

import (
	"context"
	"fmt"
	"time"
)

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
