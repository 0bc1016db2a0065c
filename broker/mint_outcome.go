package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

// outcome makes the credential durable, and looks once more whether it may still
// leave. It returns when the credential expires.
func (m *minting) outcome(cred provider.Credential) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), mintSlack)
	defer cancel()
	b, l, now := m.b, &m.lease, m.b.now()
	exp := earliest(l.ExpiresAt, cred.ExpiresAt, cred.DiesAt).Truncate(time.Second)
	if exp.Sub(now) < time.Second {
		return exp, m.fall(cred, fmt.Errorf("the credential is over already: it expires %s", exp))
	}
	r := weaker(promised(m.u.Provider), cred.Revocability)
	l.Class, l.ExpiresAt = r.Class, exp
	l.Upstream = &Upstream{Bound: Seconds(r.Bound / time.Second), DiesAt: m.diesAt(cred), NextAt: exp}
	if !cred.Handle.Empty() {
		sealed, err := b.cfg.Sealer.Seal(l.ID, cred.Handle)
		if err != nil {
			return exp, m.fall(cred, fmt.Errorf("sealing: %w", err))
		}
		l.Upstream.Handle = sealed
	}
	err := b.cfg.Journal.Append(ctx, Record{
		SettleLease: &LeaseMove{ID: l.ID, Fence: 1, State: LeaseLive, At: now, Class: l.Class, ExpiresAt: exp, Upstream: *l.Upstream},
		Entries:     []audit.Entry{b.leaseEntry(audit.LeaseIssued, l.Sandbox, *l, issuedOf(*l, m.d))},
	})
	switch {
	case errors.Is(err, ErrTaskClosed): // saved, but it must die
		m.u.nudge()
		return exp, m.undelivered(ctx, err)
	case err != nil:
		return exp, m.fall(cred, err)
	}
	alive, err := b.alive(ctx, l.TaskID, l.ID)
	if err != nil {
		return exp, m.fall(cred, err)
	}
	if !alive {
		return exp, m.fall(cred, m.gone(ctx))
	}
	if err := b.still(ctx, m.w.live.Task); err != nil {
		return exp, m.fall(cred, err)
	}
	if len(m.w.lineage) > 0 {
		// Revoked while it was narrowed: nothing is born of it any more.
		if alive, err := b.alive(ctx, l.TaskID, m.w.lineage...); err != nil || !alive {
			return exp, m.fall(cred, errors.Join(err, ErrDone))
		}
	}
	return exp, nil
}

// diesAt is when the provider refuses a credential by itself. One whose clock is behind
// names a moment that is over before the credential is: it counts as alive for as long
// as was asked for.
func (m *minting) diesAt(cred provider.Credential) time.Time {
	if asked := m.lease.Upstream.DiesAt; !cred.DiesAt.IsZero() && cred.DiesAt.Before(asked) {
		return asked
	}
	return cred.DiesAt
}

// gone is why the ledger does not know a lease that it took a moment ago.
func (m *minting) gone(ctx context.Context) error {
	b, id := m.b, m.lease.TaskID
	if b.tombs.has(id, b.now()) {
		return ErrTaskClosed
	}
	live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: id})
	if err == nil && live.State == TaskClosed {
		return ErrTaskClosed
	}
	return errors.Join(ErrLost, err)
}
