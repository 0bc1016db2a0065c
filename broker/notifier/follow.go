package notifier

import (
	"context"
	"errors"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/notify"
)

// kinds lists the entries that people can be notified of. A name that ends in "." is a prefix.
var kinds = []string{
	audit.RequestCreated, audit.RequestApproved, audit.RequestDenied, audit.RequestExpired, audit.RequestWithdrawn, audit.TaskPaused, breakGlass, policies,
}

const (
	// batch is the number of one writer's entries that are read at a time. Most of them are mints.
	batch = 5000
	// unit is the number of items that one transaction stores; the items of one entry are never
	// split. Mints and decisions use the same single writer of the database.
	unit = 100
)

// Follow processes the new entries of the audit log once. If replicas process the same entry, the
// database keeps the items of one of them.
func (n *Notifier) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		readings, err := n.cfg.Outbox.Unread(ctx, kinds, batch)
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

// read builds items from a range of the audit log and stores them, a few entries at a time.
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
		err := n.cfg.Outbox.Keep(ctx, notify.Plan{
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
