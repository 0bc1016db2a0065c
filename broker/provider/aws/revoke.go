package aws

import (
	"context"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker/provider"
)

// Revoke implements provider.Driver. When it returns, IAM has the deny and has
// shown it again; the places that decide on requests follow within the bound.
//
// The handle is durable before AssumeRole is called: without one there was no
// call and there is no session.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	if t.Handle.Empty() || !d.deny {
		return nil
	}
	h, err := readHandle(t.Handle)
	if err != nil {
		return err
	}
	if h.over(t.Now) {
		return nil
	}
	_, err = d.writer(h.Role).do(ctx, h, true)
	return d.maybeBusy(err)
}

// Probe implements provider.Prober: the session is dead when its time is over, or
// when a deny of it stands at IAM and the bound has passed. It does not use the
// session: its credentials would have to be kept for that, sts:GetCallerIdentity
// answers denied sessions too, and a refusal by any other call is not told apart
// from what the session could never do.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	if t.Handle.Empty() {
		return false, fmt.Errorf("aws: no session is known: %w", errors.ErrUnsupported)
	}
	h, err := readHandle(t.Handle)
	if err != nil {
		return false, err
	}
	early := !t.AcceptedAt.IsZero() && t.Now.Before(t.AcceptedAt.Add(d.bound))
	switch {
	case h.over(t.Now):
		return false, nil
	case early || !d.deny: // whatever IAM says
		return true, nil
	}
	denied, err := d.writer(h.Role).do(ctx, h, false)
	return !denied, d.maybeBusy(err)
}

func (d *Driver) maybeBusy(err error) error {
	if b := busy(err, d.now()); b != nil {
		return b
	}
	return err
}
