package issuance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Delivery returns how the credential of w reaches its use. Without a wish of the client it is
// by egress if egress can add the credential to requests: the credential is then in no sandbox
// where it could be stolen. The policy evaluates the result and may still demand egress.
func (i *TokenIssuer) Delivery(w kernel.MintRequest, asked string) string {
	switch {
	case injectOnly(w.Provider, w.Scopes):
		return policy.DeliveryEgress
	case asked != "":
		return asked
	case i.egress && carries(w.Provider, w.Scopes):
		return policy.DeliveryEgress
	}
	return policy.DeliveryToken
}

// injectOnly reports whether a credential for these scopes leaves ebb only in requests that egress
// sends.
func injectOnly(p broker.Provider, s scopes.Set) bool {
	return p.Driver.Traits().InjectOnly || judges(p, s)
}

// carries reports whether egress can add a provider's credential for these scopes to requests,
// or open sessions with it.
func carries(p broker.Provider, s scopes.Set) bool {
	if i, is := p.Driver.(provider.Injector); is {
		return i.Injects(s)
	}
	_, connects := broker.Endpoint(p, s)
	return connects
}

// limitable reports whether ebb knows the amount of every request of these scopes that may change
// something.
func limitable(p broker.Provider, s scopes.Set) bool {
	reader, is := p.Driver.(provider.AmountReader)
	return is && !slices.ContainsFunc(s.Scopes(), func(one scopes.Scope) bool { return !reader.ReadsAmounts(one) })
}

// CouldStay reports whether a credential is issued to the sandbox although egress could add it,
// or the credential of one of its scopes, to requests. The cause is the client's choice of
// delivery, or other scopes of the same request.
func (i *TokenIssuer) CouldStay(p broker.Provider, s scopes.Set, delivery string) bool {
	return delivery == policy.DeliveryToken && i.egress && slices.ContainsFunc(s.Scopes(), func(one scopes.Scope) bool {
		alone, err := scopes.NewSet(one)
		return err == nil && carries(p, alone)
	})
}

// Deliverable refuses a credential whose required delivery is impossible, or whose limits of amounts
// (most) egress cannot enforce, before a person is asked to approve it and before it is minted.
func (i *TokenIssuer) Deliverable(w kernel.MintRequest, most amount.Limits) error {
	if most != nil && !limitable(w.Provider, w.Scopes) {
		return broker.E(broker.Denied, "The policy limits amounts for these scopes (@max_amount), and ebb reads no amounts from the requests of "+broker.Quoted(w.Name)+" for one of them. Ask for other scopes, or ask the operator.", nil)
	}
	switch inject := injectOnly(w.Provider, w.Scopes); {
	case w.Delivery == policy.DeliveryToken:
		return nil
	case !i.egress && inject:
		return broker.E(broker.Denied, "A credential for these scopes is never issued to a sandbox: the egress proxy adds it to requests, and this broker runs no egress proxy. Ask its operator.", nil)
	case !i.egress:
		return broker.E(broker.Denied, "This credential is delivered only through the egress proxy, and this broker runs no egress proxy. Ask its operator.", nil)
	case !carries(w.Provider, w.Scopes):
		return broker.E(broker.Denied, "This credential is delivered only through the egress proxy, which does not know the requests or the database that these scopes are for. Ask for other scopes, or ask the operator.", nil)
	}
	return nil
}

// byEgress reports whether a lease's credential leaves ebb only in requests that egress sends.
// Leases from before deliveries were recorded have that delivery if their provider allows no
// other.
func (i *TokenIssuer) byEgress(l broker.Lease) bool {
	p, known := i.providers[l.Provider]
	return l.Delivery == policy.DeliveryEgress || l.Delivery == "" && known && injectOnly(p, l.Scopes)
}

// Endpoint returns the address to which sessions with a lease's credential connect; false: it
// opens no sessions.
func (i *TokenIssuer) Endpoint(l broker.Lease) (at provider.Endpoint, is bool) {
	p, known := i.providers[l.Provider]
	if !known {
		return provider.Endpoint{}, false
	}
	return broker.Endpoint(p, l.Scopes)
}

// undelivered ends a lease whose token was not returned.
func (i *TokenIssuer) undelivered(ctx context.Context, l broker.Lease, cause error) error {
	// The client's timeout must not also stop the end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	e := i.upstream.LeaseEntry(audit.LeaseUndelivered, kernel.Self, l, map[string]string{"why": errorKind(cause)})
	if err := i.store.Append(ctx, broker.Record{
		EndLease: &broker.LeaseEnd{ID: l.ID, State: broker.LeaseRevoked, By: kernel.Self, At: i.clock.Now()}, Entries: []audit.Entry{e},
	}); err != nil && !errors.Is(err, broker.ErrDone) {
		i.logger.ErrorContext(ctx, "an undelivered lease could not be ended in the store; it reads as live until it expires", "lease_id", l.ID, "error", err)
	}
	i.upstream.endInLiveStore(ctx, l)
	return undeliveredError(cause)
}

// undeliveredError translates why no token was issued.
func undeliveredError(cause error) error {
	e, known := errors.AsType[*broker.Error](cause)
	switch {
	case known:
		return e
	case cause == nil, errors.Is(cause, broker.ErrTaskClosed), errors.Is(cause, broker.ErrNotFound):
		return completedMeanwhile(cause)
	case errors.Is(cause, broker.ErrDone):
		return broker.E(broker.InvalidGrant, "The token to be narrowed was revoked meanwhile. Nothing was issued.", cause)
	case errors.Is(cause, broker.ErrTaskPaused):
		return broker.E(broker.Denied, "The task is paused. No token is issued until its runner resumes it.", cause)
	case errors.Is(cause, broker.ErrOwnerCap):
		return &broker.Error{Kind: broker.TooMany, Public: "The owner of the task has reached its limit of live credentials over all of its tasks. Complete a task, revoke credentials or wait for some to expire.", Cause: cause, RetryAfter: 10 * time.Second}
	case errors.Is(cause, broker.ErrCap):
		return &broker.Error{Kind: broker.TooMany, Public: "The task has reached its limit of live credentials. Revoke one or wait for one to expire.", Cause: cause, RetryAfter: 10 * time.Second}
	default:
		return broker.StoreError(cause)
	}
}

func completedMeanwhile(cause error) *broker.Error {
	return broker.E(broker.InvalidGrant, "The task was completed meanwhile. Nothing was issued.", cause)
}

// errorKind names a cause for the audit log, which must not hold internal details.
func errorKind(err error) string {
	for _, s := range []error{broker.ErrTaskClosed, broker.ErrTaskPaused, broker.ErrCap, broker.ErrOwnerCap, broker.ErrNotFound, broker.ErrDone, provider.ErrRefused, kernel.ErrWider, errWeaker, broker.ErrLost} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	if _, busy := errors.AsType[*provider.BusyError](err); busy {
		return "the provider limits the rate"
	}
	return "a store or the provider is unavailable"
}
