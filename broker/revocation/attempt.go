package revocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
)

// expirySkew is how far a provider's clock may be behind: the expiry of a credential counts as
// passed only one minute later.
const expirySkew = time.Minute

var errDoubt = errors.New("the credential was accepted after it was revoked, and the provider cannot tell whether it still is")

var errNoWay = errors.New("the provider cannot revoke the credential, and it never expires")

// attempt is one attempt at one claimed lease. It collects its findings, and settle writes them
// once at the end.
type attempt struct {
	b     *Queue
	u     *thirdparty.Upstream
	c     broker.Claimed
	up    broker.Upstream // the new value
	end   broker.LeaseState
	note  []audit.Entry
	began time.Time // Timekeeper.Sure at the start
}

// work makes one attempt, writes the outcome and releases the claim.
func (q *Queue) work(ctx context.Context, u *thirdparty.Upstream, c broker.Claimed) {
	defer func() {
		<-u.Claims
		if len(u.Claims)+u.Parallel <= cap(u.Claims) {
			u.Nudge()
		}
	}()
	if c.Upstream == nil {
		return // an own token: not in the queue
	}
	a := &attempt{b: q, u: u, c: c, up: *c.Upstream, end: broker.LeaseRevoking, began: q.clock.Sure()}
	a.step(ctx)
	a.settle()
}

// step takes the next step for the lease.
func (a *attempt) step(ctx context.Context) {
	accepted := !a.up.AcceptedAt.IsZero() && !a.future(a.up.AcceptedAt) // otherwise the bound would end too late
	switch {
	case a.c.Class == provider.ClassTTLOnly && a.over():
		a.settleExpired(ctx)
	case a.c.Class == provider.ClassTTLOnly && a.up.DiesAt.IsZero():
		a.fail(errNoWay)
	case a.c.Class == provider.ClassTTLOnly:
		a.up.NextAt = a.soon(a.overAt())
	case accepted && a.c.Class == provider.ClassEventual:
		a.awaitBound(ctx)
	case accepted:
		a.prove(ctx)
	default:
		a.revoke(ctx)
	}
}

// overAt returns when the credential's expiry has passed on every clock, or a time long ago for a
// credential that does not expire. Some drivers compute the expiry as the time of the mint plus a
// lifetime. If the clock was set ahead since the mint, overAt adds that shift.
func (a *attempt) overAt() time.Time {
	shift := a.b.clock.Latest(a.c.IssuedAt).Sub(a.c.IssuedAt)
	return a.up.DiesAt.Add(shift + expirySkew)
}

func (a *attempt) over() bool { return !a.up.DiesAt.IsZero() && a.passed(a.overAt()) }

// passed reports whether t had passed when the attempt began: a provider's answer proves nothing about
// a time that passes during the call. If the clock was set back since then, the earlier time counts.
func (a *attempt) passed(t time.Time) bool {
	return !broker.Earliest(a.began, a.b.clock.Sure()).Before(t)
}

// soon returns t, or one second from now if t has passed. passed ignores a time that passes during the
// attempt; without the second, the lease would be due again at once.
func (a *attempt) soon(t time.Time) time.Time {
	if now := a.b.clock.Sure(); !t.After(now) {
		return now.Add(retries.Min)
	}
	return t
}

// outlived reports whether the credential was accepted after its own expiry. Its expiry then
// proves nothing any more; only a probe can. outlived does not add the shift of overAt, because a later
// expiry could hide the probe that found the credential accepted.
func (a *attempt) outlived(u broker.Upstream) bool {
	return !u.DiesAt.IsZero() && !u.ProbedAt.Before(u.DiesAt.Add(expirySkew)) && !a.future(u.ProbedAt)
}

// future reports whether t was recorded by a clock that was ahead and has been set back. It does not use Now,
// because AcceptedAt is recorded by Late while the clock is behind.
func (a *attempt) future(t time.Time) bool { return t.After(a.b.clock.Late().Add(broker.ClockSkew)) }

// settleExpired settles a credential that ends only by its expiry. A provider that can be probed is
// asked once, because it may apply another expiry than the one it named. The answer "refused"
// adds nothing to the expiry, and a missing answer does not weaken it.
func (a *attempt) settleExpired(ctx context.Context) {
	seen := a.outlived(a.up)
	refused, err := a.probe(ctx)
	switch {
	case !a.over(): // the clock was set back during the probe
		a.up.NextAt = a.soon(a.overAt())
	case err == nil && !refused:
		a.fail(a.alive())
	case seen && !refused:
		a.doubt(err)
	case seen:
		a.dead(broker.ProofProbed)
	default:
		a.dead(broker.ProofExpired)
	}
}

func (a *attempt) revoke(ctx context.Context) {
	t, err := a.target()
	if err == nil {
		err = a.call(ctx, func(ctx context.Context) error { return a.u.Revoke(ctx, t) })
	}
	if err != nil {
		a.fail(err)
		return
	}
	a.up.AcceptedAt, a.up.Unjudged, a.up.LastError = a.b.clock.Late(), 0, ""
	if a.c.Class == provider.ClassEventual {
		a.log(audit.LeaseAccepted, map[string]any{"bound_seconds": a.up.Bound})
		a.up.NextAt = a.nextProbe()
		return
	}
	a.prove(ctx)
}

// target opens the revocation handle. It never continues without a handle that cannot be
// opened, because the driver would take the lease for one that was never minted.
func (a *attempt) target() (provider.Target, error) {
	handle := a.b.kept.Get(a.c.ID) // newer than the stored one, if present
	if handle.Empty() && a.up.Handle != "" {
		var err error
		if handle, err = a.b.sealer.Open(a.c.ID, a.up.Handle); err != nil {
			return provider.Target{}, fmt.Errorf("%w: %w", kernel.ErrSealed, err)
		}
	}
	return a.b.upstream.RevocationTarget(a.c.Lease, handle), nil
}

// call waits for a free slot at the provider and calls it with a timeout.
func (a *attempt) call(ctx context.Context, do func(context.Context) error) error {
	return a.b.call(ctx, a.u, do)
}

// call waits for a free slot at a provider and calls it with a timeout. ErrNotToday means that
// the provider was not called.
func (q *Queue) call(ctx context.Context, u *thirdparty.Upstream, do func(context.Context) error) error {
	select {
	case u.Calls <- struct{}{}:
	case <-ctx.Done():
		return kernel.ErrNotToday
	}
	defer func() { <-u.Calls }()
	now := q.clock.Sure()
	if ctx.Err() != nil || u.Quiet.Left(now) > 0 {
		return kernel.ErrNotToday
	}
	turn, granted := u.Ending.Try(now)
	if !granted {
		return kernel.ErrNotToday
	}
	called, cancel := context.WithTimeout(ctx, broker.CallTime)
	defer cancel()
	err := do(called)
	if err != nil && ctx.Err() != nil {
		turn.Cancel() // the broker stops: no statement about the provider
		return kernel.ErrNotToday
	}
	turn.Done(thirdparty.Answered(err), q.clock.Sure(), thirdparty.Jitter())
	if busy, is := errors.AsType[*provider.BusyError](err); is {
		u.Quiet.Keep(q.clock.Sure(), busy.After)
	}
	return err
}

// maxProbes is the number of inconclusive probes of an accepted revocation. After that the
// lease is settled on the provider's confirmation alone, with ProofConfirmed.
const maxProbes = 5

// prove settles a revocation that takes effect when it is accepted.
func (a *attempt) prove(ctx context.Context) {
	refused, err := a.probe(ctx)
	switch {
	case refused:
		a.dead(broker.ProofProbed)
	case err == nil: // still accepted: revoke again
		a.up.AcceptedAt = time.Time{}
		a.fail(a.alive())
	case a.caught():
		a.doubt(err)
	case errors.Is(err, errors.ErrUnsupported):
		a.dead(broker.ProofConfirmed)
	case errors.Is(err, kernel.ErrNotToday):
		a.fail(err)
	case a.up.Unjudged+1 >= maxProbes:
		a.dead(broker.ProofConfirmed)
	default:
		a.up.Unjudged++
		a.fail(err)
	}
}

// awaitBound settles a revocation that takes effect some time after it was accepted.
func (a *attempt) awaitBound(ctx context.Context) {
	refused, err := a.probe(ctx)
	past := a.passed(a.bound())
	switch {
	case refused:
		a.dead(broker.ProofProbed)
	case errors.Is(err, kernel.ErrNotToday) && !past:
		a.fail(err)
	case !past:
		a.up.NextAt = a.nextProbe()
	case err == nil: // the provider's bound has passed, and it still accepts the credential
		a.up.AcceptedAt = time.Time{}
		a.fail(a.alive())
	case a.over() && !a.outlived(a.up):
		a.dead(broker.ProofExpired)
	case a.caught():
		a.doubt(err)
	default:
		a.dead(broker.ProofBound)
	}
}

// bound returns when an accepted revocation has taken effect for certain.
func (a *attempt) bound() time.Time {
	return a.b.clock.Latest(a.up.AcceptedAt).Add(a.up.Bound.Duration())
}

// nextProbe returns when to look again at a revocation that takes effect later: every tenth of
// the bound if the driver can probe, otherwise at the end of the bound.
func (a *attempt) nextProbe() time.Time {
	if _, can := a.u.Driver.(provider.Prober); !can {
		return a.soon(a.bound())
	}
	step := min(max(a.up.Bound.Duration()/10, time.Second), 15*time.Second)
	return broker.Earliest(a.b.clock.Sure().Add(step), a.soon(a.bound()))
}

// probe reports whether the credential is known to be refused. An error means that it is
// unknown.
func (a *attempt) probe(ctx context.Context) (refused bool, err error) {
	p, can := a.u.Driver.(provider.Prober)
	if !can || a.c.State == broker.LeaseIntent && a.up.Handle == "" {
		return false, errors.ErrUnsupported // no credential to probe with
	}
	t, err := a.target()
	if err != nil {
		return false, err
	}
	var alive bool
	err = a.call(ctx, func(ctx context.Context) (err error) {
		alive, err = thirdparty.Safely(func() (bool, error) { return p.Probe(ctx, t) })
		return err
	})
	if err == nil && (!alive || a.due()) {
		a.up.ProbedAt = a.b.clock.Sure()
	}
	return err == nil && !alive, err
}

// doubt plans the next attempt for a credential for which the provider's confirmation is not
// enough.
func (a *attempt) doubt(err error) {
	if errors.Is(err, errors.ErrUnsupported) {
		err = errDoubt
	}
	a.fail(err)
}

// caught reports whether a probe ever found the credential accepted when it should have been
// refused. The provider's confirmation and the bound that it promised then prove nothing any
// more.
func (a *attempt) caught() bool { return !a.up.ProbedAt.IsZero() }

// alive returns the error for a probe that found the credential accepted although it should be
// refused.
func (a *attempt) alive() error {
	if a.outlived(a.up) {
		return kernel.ErrOutlived
	}
	return kernel.ErrAlive
}

// due reports whether the credential should be refused by now: its revocation has taken effect,
// or its expiry has passed.
func (a *attempt) due() bool {
	return a.c.Class != provider.ClassEventual || a.passed(a.bound()) || a.over()
}
