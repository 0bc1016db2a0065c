package broker

import (
	"context"

	"ebb/broker/exact"
	"ebb/broker/provider"
)

// Reaching is the newest live lease of a caller that is for a host which is reached
// by SSH. Whether it may be used now is Reach's to say.
func (b *Broker) Reaching(ctx context.Context, c Caller, host exact.Host) (leaseID string, err error) {
	ls, err := b.liveOf(ctx, c, func(l Lease) bool { return b.reaches(l, host) })
	switch {
	case err != nil:
		return "", err
	case len(ls) == 0:
		return "", noUse(errNotTheirs)
	}
	return ls[0].ID, nil
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
	return Usable{task: t, Target: b.targetOf(l, provider.Secret{})}, nil
}

// reaches reports whether a lease is for a host that is reached by SSH.
func (b *Broker) reaches(l Lease, host exact.Host) bool {
	r, is := b.cfg.Providers[l.Provider].Driver.(provider.Reacher)
	return is && r.Reaches(l.Scopes, host)
}
