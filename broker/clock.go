package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/attest/clock"
)

// now is the broker's clock in the precision of the stores.
func (b *Broker) now() time.Time { return b.clock.Read().Now.UTC().Truncate(time.Millisecond) }

// sure is the time that has surely passed: what is final waits for it, such as the end
// of a task by its deadline. What is merely refused goes by now.
func (b *Broker) sure() time.Time { return b.clock.Read().Sure.UTC().Truncate(time.Millisecond) }

var errAhead = errors.New("the clock jumped ahead and has not settled")

// steadyClock refuses to issue anything while a jump ahead of the clock has not
// settled: it would live as much longer as the clock is ahead (I4).
func (b *Broker) steadyClock() error {
	if jump := b.clock.Read().Jump; jump > 0 {
		return &Error{Kind: Unavailable, RetryAfter: 10 * time.Second, Cause: fmt.Errorf("%w: by %s", errAhead, jump.Round(time.Second)),
			Public: "The clock of this ebb has just jumped ahead. Nothing is issued until it is back or has stayed for 3 minutes. Try again then."}
	}
	return nil
}

// ClockSkew is how far apart the clocks of replicas, and of an identity provider, may be.
const ClockSkew = time.Minute

// readClock notes what the clock showed when the last entry of the record was made.
func (b *Broker) readClock(ctx context.Context) error {
	heads, err := b.cfg.Journal.Heads(ctx)
	if err != nil {
		return fmt.Errorf("reading when the record ends: %w", err)
	}
	var recorded int64
	for _, h := range heads {
		recorded = max(recorded, h.At.UnixMilli())
	}
	b.recorded.Store(recorded)
	if b.clockBack() {
		b.cfg.Logger.WarnContext(ctx, "the clock is behind the last entry of the audit log: break-glass is off until all periods are ended and the clock has run for 3 minutes", "recorded", time.UnixMilli(recorded).UTC())
	}
	return nil
}

// clockBack reports whether the clock was set back lately, here or, before this process
// began, to before the last entry of the record.
func (b *Broker) clockBack() bool {
	return b.clock.Read().Jump < 0 || b.now().Add(ClockSkew).UnixMilli() < b.recorded.Load()
}

// caughtUp forgets that the record is ahead of the clock. It is called when no period of
// break-glass is open: none can be lengthened any more.
func (b *Broker) caughtUp() {
	if r := b.clock.Read(); r.Jump == 0 && r.Steady >= clock.Settles {
		b.recorded.Store(0)
	}
}

// keepClock says on the log, once for each, that the clock jumped and that it is steady
// again.
func (b *Broker) keepClock(ctx context.Context) {
	jump := b.clock.Read().Jump.Round(time.Second)
	b.m.clockJump.Set(jump.Seconds())
	switch before := time.Duration(b.jump.Swap(int64(jump))); {
	case before == jump:
	case jump > 0:
		b.cfg.Logger.ErrorContext(ctx, "the clock jumped ahead: nothing is issued, and nothing ends by time, until it is back or has stayed for 3 minutes", "by", jump.String())
	case jump < 0:
		b.cfg.Logger.WarnContext(ctx, "the clock was set back: break-glass is off for 3 minutes, and proofs that may have been used are refused", "by", jump.String())
	default:
		b.cfg.Logger.WarnContext(ctx, "the clock is steady again", "now", b.now())
	}
}

// clockState is the clock's line of Ready.
func (b *Broker) clockState() Dependency {
	d := Dependency{Name: "clock", Err: b.steadyClock()}
	switch jump := b.clock.Read().Jump.Round(time.Second); {
	case jump > 0:
		d.Warning = fmt.Sprintf("the clock jumped %s ahead; nothing is issued until it is back or has stayed for 3 minutes", jump)
	case jump < 0:
		d.Warning = fmt.Sprintf("the clock was set back by %s; break-glass is off until it has stayed for 3 minutes", -jump)
	case b.clockBack():
		d.Warning = "the clock is behind the last entry of the audit log; break-glass is off until the clock has run for 3 minutes"
	}
	return d
}

// remember is until when an end that happens now must be remembered: no token
// can be unexpired then, and no refill that began before it is still going on.
func (b *Broker) remember() time.Time { return b.now().Add(b.cfg.Limits.MaxTTL + 2*refillTime) }
