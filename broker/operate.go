package broker

import (
	"context"
	"errors"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// RetryLease makes the next attempt at a credential's end due now.
func (b *Broker) RetryLease(ctx context.Context, who Principal, id string) (Lease, error) {
	l, err := b.owedLease(ctx, who, id)
	if err != nil {
		return Lease{}, err
	}
	e := b.leaseEntry(audit.LeaseRetried, who.ID, l, nil)
	l.Upstream.NextAt = b.now()
	if err := b.operate(ctx, LeaseEnd{ID: id, State: LeaseRevoking, By: who.ID, At: l.Upstream.NextAt}, e); err != nil {
		return Lease{}, err
	}
	b.nudge(l.Provider)
	return l, nil
}

// ForceLease ends what is owed by a person's word: the provider is not asked any
// more, and nobody claims that the credential is dead there.
func (b *Broker) ForceLease(ctx context.Context, who Principal, id, reason string) (Lease, error) {
	if reason == "" || utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return Lease{}, E(Invalid, "reason must be 1 to 500 printable characters: say how you know that the credential is dead.", nil)
	}
	l, err := b.owedLease(ctx, who, id)
	if err != nil {
		return Lease{}, err
	}
	now := b.now()
	e := b.leaseEntry(audit.LeaseForced, who.ID, l, map[string]any{"reason": reason, "attempts": l.Upstream.Attempts, "last_error": l.Upstream.LastError})
	if err := b.operate(ctx, LeaseEnd{ID: id, State: LeaseUnconfirmed, By: who.ID, At: now}, e); err != nil {
		return Lease{}, err
	}
	b.kept.drop(id)
	b.rang.ring(l.TaskID)
	return b.leaseFor(ctx, who, certain, id)
}

// owedLease loads a lease whose end is owed at its provider, for an operator.
func (b *Broker) owedLease(ctx context.Context, who Principal, id string) (Lease, error) {
	if err := allow(who, certain, RoleOperator); err != nil {
		return Lease{}, err
	}
	l, err := b.leaseFor(ctx, who, doubtful, id)
	switch {
	case err != nil:
		return Lease{}, err
	case l.Upstream == nil:
		return Lease{}, E(Conflict, "This credential is the broker's own: it is dead as soon as it is revoked.", nil)
	case l.State == LeaseLive:
		return Lease{}, E(Conflict, "The credential is live. Revoke it first.", nil)
	case l.State == LeaseIntent:
		return Lease{}, E(Conflict, "The credential is being made. Revoke it first, or wait a minute.", nil)
	case l.State != LeaseRevoking:
		return Lease{}, E(Conflict, "Nothing is owed for this credential any more.", ErrDone)
	}
	return l, nil
}

func (b *Broker) operate(ctx context.Context, end LeaseEnd, e audit.Entry) error {
	err := b.cfg.Journal.Append(ctx, Record{EndLease: &end, Entries: []audit.Entry{e}})
	if errors.Is(err, ErrDone) {
		return E(Conflict, "Nothing is owed for this credential any more.", err)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// nudge wakes the lane of a provider, if it is a third party.
func (b *Broker) nudge(name string) {
	if u := b.upstreams[name]; u != nil {
		u.nudge()
	}
}
