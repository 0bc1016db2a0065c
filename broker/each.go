package broker

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// refillPage and refillWidth make a refill short: pages are read while earlier
// ones are written, many entries at a time. A hundred thousand leases must not
// keep a restart waiting.
const (
	refillPage  = 1000
	refillWidth = 256
)

// each does do for everything that read gives, page by page, in no order, and
// counts.
func each[T any](ctx context.Context, read func(context.Context, Page) ([]T, error), id func(T) string, do func(T) error) (int, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(refillWidth)
	n := 0
	for page := (Page{Limit: refillPage}); ; {
		items, err := read(ctx, page)
		if err != nil {
			return n, errors.Join(err, g.Wait())
		}
		for _, it := range items {
			g.Go(func() error { return do(it) })
		}
		n += len(items)
		if len(items) < refillPage {
			return n, g.Wait()
		}
		page.After = id(items[len(items)-1])
	}
}

func (b *Broker) eachTask(ctx context.Context, f TaskFilter, do func(Task) error) (int, error) {
	return each(ctx, func(ctx context.Context, p Page) ([]Task, error) {
		f.Page = p
		return b.cfg.Journal.Tasks(ctx, f)
	}, func(t Task) string { return t.ID }, do)
}

func (b *Broker) eachLease(ctx context.Context, f LeaseFilter, do func(Lease) error) (int, error) {
	f.Now = b.now()
	return each(ctx, func(ctx context.Context, p Page) ([]Lease, error) {
		f.Page = p
		return b.cfg.Journal.Leases(ctx, f)
	}, func(l Lease) string { return l.ID }, do)
}
