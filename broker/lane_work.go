package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

// expirySkew is how far a provider's clock may be behind: a credential counts as
// dead by its own expiry only so much later.
const expirySkew = time.Minute

var (
	errAlive    = errors.New("the credential is still accepted after it was revoked")
	errOutlived = errors.New("the credential is still accepted after its own expiry")
	errDoubt    = errors.New("the credential was accepted after it was revoked, and nobody can tell whether it still is")
	errSealed   = errors.New("the revocation handle cannot be opened")
	errNoWay    = errors.New("the credential can be revoked by nobody and never expires")
	errNotToday = errors.New("the provider is not called now")
)

// attempt is one look at one claimed lease: what is found out is collected here and
// written down once, at its end.
type attempt struct {
	b    *Broker
	u    *upstream
	c    Claimed
	up   Upstream // as it is going to be
	end  LeaseState
	note []audit.Entry
}

// work does one attempt and gives the claim back with what came of it.
func (b *Broker) work(ctx context.Context, u *upstream, c Claimed) {
	defer func() {
		<-u.claims
		if len(u.claims)+u.Parallel <= cap(u.claims) {
			u.nudge()
		}
	}()
	if c.Upstream == nil {
		return // not the lane's
	}
	a := &attempt{b: b, u: u, c: c, up: *c.Upstream, end: LeaseRevoking}
	a.step(ctx)
	a.settle()
}

// step does what is to be done next.
func (a *attempt) step(ctx context.Context) {
	accepted := !a.up.AcceptedAt.IsZero()
	switch {
	case a.c.Class == provider.ClassTTLOnly && a.over():
		a.lapse(ctx)
	case a.c.Class == provider.ClassTTLOnly && a.up.DiesAt.IsZero():
		a.fail(errNoWay)
	case a.c.Class == provider.ClassTTLOnly:
		a.up.NextAt = a.overAt()
	case accepted && a.c.Class == provider.ClassEventual:
		a.awaitBound(ctx)
	case accepted:
		a.prove(ctx)
	default:
		a.revoke(ctx)
	}
}

// overAt is when the credential's own expiry has passed on every clock.
func (a *attempt) overAt() time.Time { return a.up.DiesAt.Add(expirySkew) }

func (a *attempt) over() bool { return !a.up.DiesAt.IsZero() && !a.b.sure().Before(a.overAt()) }

// outlived reports whether the credential was last seen alive after its own expiry:
// that the expiry has passed then says nothing any more, and only a probe can.
func (a *attempt) outlived() bool { return outlived(a.up) }

func outlived(u Upstream) bool {
	return !u.DiesAt.IsZero() && !u.ProbedAt.Before(u.DiesAt.Add(expirySkew))
}

// lapse finishes what only time ends. Whoever can tell is asked once, because a
// provider may go by another expiry than the one it named. The answer that it is
// refused adds nothing to the expiry, and no answer takes nothing away from it.
func (a *attempt) lapse(ctx context.Context) {
	seen := a.outlived()
	refused, err := a.probe(ctx)
	switch {
	case err == nil && !refused:
		a.fail(a.alive())
	case seen && !refused:
		a.doubt(err)
	case seen:
		a.dead(ProofProbed)
	default:
		a.dead(ProofExpired)
	}
}

func (a *attempt) revoke(ctx context.Context) {
	t, err := a.target()
	if err == nil {
		err = a.call(ctx, func(ctx context.Context) error { return a.u.revoke(ctx, t) })
	}
	if err != nil {
		a.fail(err)
		return
	}
	a.up.AcceptedAt, a.up.Unjudged, a.up.LastError = a.b.now(), 0, ""
	if a.c.Class == provider.ClassEventual {
		a.log(audit.LeaseAccepted, map[string]any{"bound_seconds": a.up.Bound})
		a.up.NextAt = a.nextProbe()
		return
	}
	a.prove(ctx)
}

// target opens the handle. A handle that cannot be opened is never left out: the
// driver would take it for a lease that was never minted.
func (a *attempt) target() (provider.Target, error) {
	handle := a.b.kept.get(a.c.ID) // later than what is stored, if there is one
	if handle.Empty() && a.up.Handle != "" {
		var err error
		if handle, err = a.b.cfg.Sealer.Open(a.c.ID, a.up.Handle); err != nil {
			return provider.Target{}, fmt.Errorf("%w: %w", errSealed, err)
		}
	}
	return a.b.targetOf(a.c.Lease, handle), nil
}

// call waits for its turn at the provider and calls it, in time.
func (a *attempt) call(ctx context.Context, do func(context.Context) error) error {
	return a.b.call(ctx, a.u, do)
}

// call waits for a turn at a provider and calls it, in time. errNotToday says that
// nobody was asked.
func (b *Broker) call(ctx context.Context, u *upstream, do func(context.Context) error) error {
	select {
	case u.calls <- struct{}{}:
	case <-ctx.Done():
		return errNotToday
	}
	defer func() { <-u.calls }()
	now := b.now()
	if ctx.Err() != nil || u.quiet.left(now) > 0 {
		return errNotToday
	}
	turn, granted := u.ending.Try(now)
	if !granted {
		return errNotToday
	}
	called, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := do(called)
	if err != nil && ctx.Err() != nil {
		turn.Cancel() // the broker stops: that says nothing about the provider
		return errNotToday
	}
	turn.Done(answered(err), b.now(), jitter())
	if busy, is := errors.AsType[*provider.BusyError](err); is {
		u.quiet.keep(b.now(), busy.After)
	}
	return err
}
