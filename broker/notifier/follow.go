package notifier

import (
	"context"
	"errors"

	"ebb/broker/audit"
	"ebb/broker/notify"
)

// kinds are the entries that people may be told of; one that ends in "." is a prefix.
var kinds = []string{
	audit.RequestCreated, audit.RequestApproved, audit.RequestDenied, audit.RequestExpired, audit.RequestWithdrawn, audit.TaskPaused, breakGlass, policies,
}

// batch is how much of one writer's record is read at a time: mints fill it.
const batch = 5000

// Follow looks at what is new on the record, once. Of replicas that look at the same
// entry one keeps what it made of it.
func (n *Notifier) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		readings, err := n.cfg.Store.Unread(ctx, kinds, batch)
		if err != nil || len(readings) == 0 {
			return err
		}
		for _, r := range readings {
			items, err := n.plan(ctx, r.Entries)
			if err != nil {
				return err
			}
			err = n.cfg.Store.Keep(ctx, notify.Plan{Reading: r, Items: items, Now: n.cfg.Now(), Most: n.cfg.Most, Window: n.cfg.Digest})
			if err != nil && !errors.Is(err, notify.ErrStale) {
				return err
			}
		}
	}
	return ctx.Err()
}

// plan makes items of entries.
func (n *Notifier) plan(ctx context.Context, entries []audit.Entry) ([]notify.Item, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	known, err := n.everybody(ctx)
	if err != nil {
		return nil, err
	}
	var items []notify.Item
	for _, e := range entries {
		more, err := n.itemsOf(ctx, e, known)
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	return items, nil
}

func (n *Notifier) itemsOf(ctx context.Context, e audit.Entry, known everybody) ([]notify.Item, error) {
	switch e.Kind {
	case audit.RequestCreated:
		r, found, err := n.request(ctx, e.RequestID)
		if err != nil || !found || !waits(r, n.cfg.Now()) {
			return nil, err
		}
		return n.asked(r, known), nil
	case audit.RequestApproved, audit.RequestDenied, audit.RequestExpired, audit.RequestWithdrawn:
		return n.ended(ctx, e, known)
	case audit.TaskPaused:
		return n.paused(ctx, e, known)
	}
	return n.happened(e, known), nil
}
