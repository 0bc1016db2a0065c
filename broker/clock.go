package broker

import (
	"context"
	"fmt"
	"time"
)

// now is the broker's clock in the precision of the stores.
func (b *Broker) now() time.Time {
	t := b.cfg.Now().UTC().Truncate(time.Millisecond)
	for ms := t.UnixMilli(); ; {
		if before := b.latest.Load(); ms <= before || b.latest.CompareAndSwap(before, ms) {
			return t
		}
	}
}

// setBack reports whether the clock shows an earlier time than it did. What the
// ledger has forgotten since then cannot be told from what it never saw.
func (b *Broker) setBack() bool {
	return b.now().UnixMilli() < b.latest.Load()-time.Second.Milliseconds()
}

// ClockSkew is how far apart the clocks of replicas, and of an identity provider, may be.
const ClockSkew = time.Minute

// readClock notes what the clock showed when the last entry of the record was made.
func (b *Broker) readClock(ctx context.Context) error {
	heads, err := b.cfg.Journal.Heads(ctx)
	if err != nil {
		return fmt.Errorf("reading when the record ends: %w", err)
	}
	for _, h := range heads {
		b.recorded = max(b.recorded, h.At.UnixMilli())
	}
	if b.clockBack() {
		b.cfg.Logger.WarnContext(ctx, "the clock is behind the record: nobody breaks the glass until it is not", "recorded", time.UnixMilli(b.recorded).UTC())
	}
	return nil
}

// clockBack reports whether the clock shows an earlier time than it did, here or, before this
// process began, on the record.
func (b *Broker) clockBack() bool {
	return b.setBack() || b.now().Add(ClockSkew).UnixMilli() < b.recorded
}

// remember is until when an end that happens now must be remembered: no token
// can be unexpired then, and no refill that began before it is still going on.
func (b *Broker) remember() time.Time { return b.now().Add(b.cfg.Limits.MaxTTL + 2*refillTime) }
