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

const (
	// batch is how much of one writer's record is read at a time: mints fill it.
	batch = 5000
	// unit is how many items are kept at once, but for those of one entry: mints and
	// decisions share the database's one writer.
	unit = 100
)

// Follow looks at what is new on the record, once. Of replicas that look at the same
// entry one keeps what it made of it.
func (n *Notifier) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		readings, err := n.cfg.Store.Unread(ctx, kinds, batch)
		if err != nil || len(readings) == 0 {
			return err
		}
		for _, r := range readings {
			if err := n.read(ctx, r); err != nil && !errors.Is(err, notify.ErrStale) {
				return err
			}
		}
	}
	return ctx.Err()
}

// read makes items of a part of the record and keeps them, a few entries at a time.
func (n *Notifier) read(ctx context.Context, r notify.Reading) error {
	var known everybody
	if len(r.Entries) > 0 {
		var err error
		if known, err = n.everybody(ctx); err != nil {
			return err
		}
	}
	var items []notify.Item
	from := r.From
	keep := func(to int64) error {
		err := n.cfg.Store.Keep(ctx, notify.Plan{
			Reading: notify.Reading{Writer: r.Writer, From: from, To: to}, Items: items, Now: n.cfg.Now(), Most: n.cfg.Most, Window: n.cfg.Digest,
		})
		from, items = to, nil
		return err
	}
	for _, e := range r.Entries {
		more, err := n.itemsOf(ctx, e, known)
		if err != nil {
			return err
		}
		if items = append(items, more...); len(items) >= unit {
			if err := keep(e.Seq); err != nil {
				return err
			}
		}
	}
	if from == r.To {
		return nil
	}
	return keep(r.To)
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
