package broker

import (
	"context"
	"time"

	"ebb/broker/exact"
	"ebb/broker/provider"
)

// LeaseTo is the newest live lease of a caller that is for a host which is reached by SSH, and
// when the last of those has had its time that are live. Whether it may be used now is Reach's
// to say.
func (b *Broker) LeaseTo(ctx context.Context, c Caller, host exact.Host) (leaseID string, until time.Time, err error) {
	ls, err := b.liveOf(ctx, c, func(l Lease) bool { return b.reaches(l, host) })
	switch {
	case err != nil:
		return "", time.Time{}, err
	case len(ls) == 0:
		return "", time.Time{}, noUse(errNotTheirs)
	}
	for _, l := range ls {
		if l.ExpiresAt.After(until) {
			until = l.ExpiresAt
		}
	}
	return ls[0].ID, until, nil
}

// Reach says whether a caller may open an SSH connection to a host by a lease now (I2): the lease is
// the caller's, for this host, and alive. The sandbox proves itself to the host, so that nothing
// of the credential is needed. In doubt it is an error of kind Unavailable.
func (b *Broker) Reach(ctx context.Context, c Caller, leaseID string, host exact.Host) (Usable, error) {
	l, err := b.usedLease(ctx, leaseID)
	if err != nil {
		return Usable{}, err
	}
	if !theirs(l, c) || !b.reaches(l, host) {
		return Usable{}, noUse(errNotTheirs)
	}
	t, err := b.liveUse(ctx, l)
	if err != nil {
		return Usable{}, err
	}
	return Usable{Provider: l.Provider, task: t, Target: b.targetOf(l, provider.Secret{})}, nil
}

// MayHaveReached says which SSH connections a lease, alive or not, may have been used in: those of its
// task to hosts that it is for. With which certificate the sandbox has logged in is a secret between
// it and the host, and tools of one task can give each other what they hold.
func (b *Broker) MayHaveReached(ctx context.Context, leaseID string) (in func(Caller, exact.Host) bool, err error) {
	l, err := b.usedLease(ctx, leaseID)
	if err != nil {
		return nil, err
	}
	return func(c Caller, host exact.Host) bool { return l.TaskID == c.TaskID && b.reaches(l, host) }, nil
}

// reaches reports whether a lease is for a host that is reached by SSH.
func (b *Broker) reaches(l Lease, host exact.Host) bool {
	r, is := b.cfg.Providers[l.Provider].Driver.(provider.Reacher)
	return is && r.Reaches(l.Scopes, host)
}
