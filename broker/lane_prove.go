package broker

import (
	"context"
	"errors"
	"time"

	"ebb/broker/provider"
)

// maxProbes is how many probes an accepted revocation is worth that cannot be
// judged: the provider's word then has to do, and is all that is claimed.
const maxProbes = 5

// prove finishes a revocation that holds from the moment it was accepted.
func (a *attempt) prove(ctx context.Context) {
	refused, err := a.probe(ctx)
	switch {
	case refused:
		a.dead(ProofProbed)
	case err == nil: // it lied, or it was early: revoke again
		a.up.AcceptedAt = time.Time{}
		a.fail(a.alive())
	case a.caught():
		a.doubt(err)
	case errors.Is(err, errors.ErrUnsupported):
		a.dead(ProofConfirmed)
	case errors.Is(err, errNotToday):
		a.fail(err)
	case a.up.Unjudged+1 >= maxProbes:
		a.dead(ProofConfirmed)
	default:
		a.up.Unjudged++
		a.fail(err)
	}
}

// awaitBound finishes a revocation that holds some time after it was accepted.
func (a *attempt) awaitBound(ctx context.Context) {
	refused, err := a.probe(ctx)
	past := !a.b.sure().Before(a.bound())
	switch {
	case refused:
		a.dead(ProofProbed)
	case errors.Is(err, errNotToday) && !past:
		a.fail(err)
	case !past:
		a.up.NextAt = a.nextProbe()
	case err == nil: // it promised to be refused by now
		a.up.AcceptedAt = time.Time{}
		a.fail(a.alive())
	case a.over() && !a.outlived():
		a.dead(ProofExpired)
	case a.caught():
		a.doubt(err)
	default:
		a.dead(ProofBound)
	}
}

// bound is when a revocation that was accepted holds for certain.
func (a *attempt) bound() time.Time { return a.up.AcceptedAt.Add(a.up.Bound.Duration()) }

// nextProbe is when to look again at a revocation that takes its time: a few times
// within the bound when somebody can tell, else at its end.
func (a *attempt) nextProbe() time.Time {
	if _, can := a.u.Driver.(provider.Prober); !can {
		return a.bound()
	}
	step := min(max(a.up.Bound.Duration()/10, time.Second), 15*time.Second)
	return earliest(a.b.now().Add(step), a.bound())
}

// probe reports whether the credential is known to be refused. It is an error when
// nobody could tell.
func (a *attempt) probe(ctx context.Context) (refused bool, err error) {
	p, can := a.u.Driver.(provider.Prober)
	if !can || a.c.State == LeaseIntent && a.up.Handle == "" {
		return false, errors.ErrUnsupported // nothing to use
	}
	t, err := a.target()
	if err != nil {
		return false, err
	}
	var alive bool
	err = a.call(ctx, func(ctx context.Context) (err error) {
		alive, err = safely(func() (bool, error) { return p.Probe(ctx, t) })
		return err
	})
	if err == nil && (!alive || a.due()) {
		a.up.ProbedAt = a.b.now()
	}
	return err == nil && !alive, err
}

// doubt plans the next attempt at a credential of which something else than the
// provider's word is needed.
func (a *attempt) doubt(err error) {
	if errors.Is(err, errors.ErrUnsupported) {
		err = errDoubt
	}
	a.fail(err)
}

// caught reports whether a probe ever found the credential alive when it had to be
// refused: the provider's word that it is dead then no longer does, and neither does
// the bound that it promised.
func (a *attempt) caught() bool { return !a.up.ProbedAt.IsZero() }

// alive is what a probe says that found the credential alive although it is due.
func (a *attempt) alive() error {
	if a.outlived() {
		return errOutlived
	}
	return errAlive
}

// due reports whether the credential has to be refused by now: its revocation holds, or
// its own expiry has passed.
func (a *attempt) due() bool {
	return a.c.Class != provider.ClassEventual || !a.b.sure().Before(a.bound()) || a.over()
}
