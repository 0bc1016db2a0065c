package broker

import (
	"context"
	"sync"
	"time"
)

// tallyAge is how old LeaseTally may be: its four counts would be half of what a page
// of credentials costs.
const tallyAge = 5 * time.Second

// LeaseTally sums up all credentials. It is up to 5 s old: At says when it was counted.
// Callers share what they are given and do not change it.
func (b *Broker) LeaseTally(ctx context.Context, who Principal) (LeaseTally, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator, RoleViewer); err != nil {
		return LeaseTally{}, err
	}
	return b.leases.get(ctx, b.now(), b.cfg.Journal.LeaseTally)
}

// leaseTallies keeps the last one. One caller counts, the others wait for it.
type leaseTallies struct {
	once sync.Once
	turn chan struct{} // holds one
	last LeaseTally
}

func (c *leaseTallies) get(ctx context.Context, now time.Time, count func(context.Context, time.Time) (LeaseTally, error)) (LeaseTally, error) {
	c.once.Do(func() { c.turn = make(chan struct{}, 1) })
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return LeaseTally{}, unavailable(ctx.Err())
	}
	defer func() { <-c.turn }()
	if age := now.Sub(c.last.At); !c.last.At.IsZero() && age >= 0 && age < tallyAge {
		return c.last, nil
	}
	t, err := count(ctx, now)
	if err != nil {
		return LeaseTally{}, unavailable(err)
	}
	t.At = now
	c.last = t
	return t, nil
}
