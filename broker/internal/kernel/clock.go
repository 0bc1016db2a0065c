package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/broker"
)

// Timekeeper reads the clock and tracks how far it can be trusted: while it has jumped ahead
// nothing is issued, and while it is behind the audit log break-glass is off.
type Timekeeper struct {
	store  broker.Store
	limits broker.Limits
	logger *slog.Logger
	m      *Metrics

	clock    *clock.Clock
	recorded atomic.Int64
	jump     atomic.Int64
}

// Open starts the clock; now and steady are those of Config.
func (t *Timekeeper) Open(now func() time.Time, steady func() time.Duration) {
	t.clock = clock.New(now, steady)
}

// Now returns the time in the precision of the stores: milliseconds, UTC.
func (t *Timekeeper) Now() time.Time { return t.clock.Read().Now.UTC().Truncate(time.Millisecond) }

// Sure returns a time that has certainly passed. Final steps wait for it, such as the end of a
// task at its deadline; mere refusals use Now.
func (t *Timekeeper) Sure() time.Time { return t.clock.Read().Sure.UTC().Truncate(time.Millisecond) }

// Late returns the latest possible present time. After the clock was set back, Late ignores the jump until
// the jump settles. Callers record this time because replicas with the right clock may read it.
func (t *Timekeeper) Late() time.Time {
	r := t.clock.Read()
	return r.Now.Add(max(0, -r.Jump)).UTC().Truncate(time.Millisecond)
}

// Latest returns the latest time at which the clock can have displayed shown; see clock.Reading.Latest. A
// period that began at shown has certainly passed when Sure reaches Latest(shown) plus the period.
func (t *Timekeeper) Latest(shown time.Time) time.Time {
	return t.clock.Read().Latest(shown).UTC().Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// Jumps returns a number that changes when the clock jumps, and when a jump settles or ends.
func (t *Timekeeper) Jumps() int64 { return t.clock.Jumps() }

var errAhead = errors.New("the clock jumped ahead and has not settled")

// SteadyClock returns an error while a jump ahead of the clock has not settled, so that nothing
// is issued: a token would live longer by the length of the jump (I4).
func (t *Timekeeper) SteadyClock() error {
	if jump := t.clock.Read().Jump; jump > 0 {
		return &broker.Error{Kind: broker.Unavailable, RetryAfter: 10 * time.Second, Cause: fmt.Errorf("%w: by %s", errAhead, jump.Round(time.Second)),
			Public: "The clock of this ebb has just jumped ahead. Nothing is issued until it is back or has stayed for 3 minutes. Try again then."}
	}
	return nil
}

// ReadClock reads the time of the last audit entry.
func (t *Timekeeper) ReadClock(ctx context.Context) error {
	heads, err := t.store.Heads(ctx)
	if err != nil {
		return fmt.Errorf("reading the last entries of the audit log: %w", err)
	}
	var recorded int64
	for _, h := range heads {
		recorded = max(recorded, h.At.UnixMilli())
	}
	t.recorded.Store(recorded)
	if t.ClockBack() {
		t.logger.WarnContext(ctx, "the clock is behind the last entry of the audit log: break-glass is off until all periods are ended and the clock has run for 3 minutes", "recorded", time.UnixMilli(recorded).UTC())
	}
	return nil
}

// ClockBack reports whether the clock was set back lately: in this process, or before it
// started, to before the last audit entry.
func (t *Timekeeper) ClockBack() bool {
	return t.clock.Read().Jump < 0 || t.Now().Add(broker.ClockSkew).UnixMilli() < t.recorded.Load()
}

// CaughtUp forgets that the audit log is ahead of the clock. It is called when no break-glass
// period is open, so that none can be lengthened.
func (t *Timekeeper) CaughtUp() {
	if r := t.clock.Read(); r.Jump == 0 && r.Steady >= clock.Settles {
		t.recorded.Store(0)
	}
}

// KeepClock logs each jump of the clock once, and when it is steady again.
func (t *Timekeeper) KeepClock(ctx context.Context) {
	jump := t.clock.Read().Jump.Round(time.Second)
	t.m.clockJump.Set(jump.Seconds())
	switch before := time.Duration(t.jump.Swap(int64(jump))); {
	case before == jump:
	case jump > 0:
		t.logger.ErrorContext(ctx, "the clock jumped ahead: nothing is issued, and nothing ends by time, until it is back or has stayed for 3 minutes", "by", jump.String())
	case jump < 0:
		t.logger.WarnContext(ctx, "the clock was set back: break-glass is off for 3 minutes, and proofs that may have been used are refused", "by", jump.String())
	default:
		t.logger.WarnContext(ctx, "the clock is steady again", "now", t.Now())
	}
}

// ClockState returns the clock's readiness entry.
func (t *Timekeeper) ClockState() broker.Dependency {
	d := broker.Dependency{Name: "clock", Err: t.SteadyClock()}
	switch jump := t.clock.Read().Jump.Round(time.Second); {
	case jump > 0:
		d.Warning = fmt.Sprintf("the clock jumped %s ahead; nothing is issued until it is back or has stayed for 3 minutes", jump)
	case jump < 0:
		d.Warning = fmt.Sprintf("the clock was set back by %s; break-glass is off until it has stayed for 3 minutes", -jump)
	case t.ClockBack():
		d.Warning = "the clock is behind the last entry of the audit log; break-glass is off until the clock has run for 3 minutes"
	}
	return d
}

// Remember returns until when an end that happens now must be remembered. After that no token
// can be unexpired, and no refill that began before the end is still running.
func (t *Timekeeper) Remember() time.Time { return t.Now().Add(t.limits.MaxTTL + 2*RefillTime) }
