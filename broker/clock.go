package broker

import (
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

// remember is until when an end that happens now must be remembered: no token
// can be unexpired then, and no refill that began before it is still going on.
func (b *Broker) remember() time.Time { return b.now().Add(b.cfg.Limits.MaxTTL + 2*refillTime) }
