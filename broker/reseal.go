package broker

import (
	"context"
	"errors"
	"time"
)

const (
	resealRound = time.Minute
	resealPage  = 100
)

// reseal seals again, with the key of now, what an earlier key sealed, so that a key
// can be taken away once its time is over.
func (b *Broker) reseal(ctx context.Context) {
	if b.cfg.Safe != nil {
		if err := b.cfg.Safe.Reseal(ctx); err != nil && ctx.Err() == nil {
			b.cfg.Logger.WarnContext(ctx, "secrets that an earlier key sealed could not be sealed again", "error", err)
		}
	}
	b.resealHandles(ctx)
}

// resealHandles leaves what cannot be opened as it is: the lane tells.
func (b *Broker) resealHandles(ctx context.Context) {
	key := b.cfg.Sealer.KeyID()
	if key == "" {
		return
	}
	for after := ""; ctx.Err() == nil; {
		look, cancel := context.WithTimeout(ctx, failTime)
		ls, err := b.cfg.Journal.Sealed(look, key, after, resealPage)
		cancel()
		if err != nil {
			b.cfg.Logger.WarnContext(ctx, "handles that an earlier key sealed could not be read", "error", err)
			return
		}
		for _, l := range ls {
			if err := b.resealOne(ctx, l); err != nil && !errors.Is(err, ErrDone) {
				b.cfg.Logger.WarnContext(ctx, "a handle could not be sealed again", "lease_id", l.ID, "error", err)
			}
		}
		if len(ls) < resealPage {
			return
		}
		after = ls[len(ls)-1].ID
	}
}

func (b *Broker) resealOne(ctx context.Context, l Lease) error {
	handle, err := b.cfg.Sealer.Open(l.ID, l.Upstream.Handle)
	if err != nil {
		return err
	}
	sealed, err := b.cfg.Sealer.Seal(l.ID, handle)
	if err != nil {
		return err
	}
	return b.cfg.Journal.Append(ctx, Record{ResealLease: &LeaseSeal{ID: l.ID, From: l.Upstream.Handle, To: sealed}})
}
