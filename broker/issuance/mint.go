package issuance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// ThirdParties mints credentials at providers outside of ebb. It records the intent, calls the
// driver and records the outcome, so that each credential stays revocable across a crash (I3).
type ThirdParties struct {
	store     broker.Store
	liveStore broker.LiveStore
	logger    *slog.Logger
	providers map[string]broker.Provider
	sealer    broker.Sealer
	instance  string
	kept      *thirdparty.RetainedHandles
	rang      *thirdparty.Waiters
	revoked   *kernel.RevokedSet
	upstreams map[string]*thirdparty.Upstream

	admission *kernel.Admitter
	callers   callers
	clock     *kernel.Timekeeper
	feed      feed
	issuer    *TokenIssuer
	log       *kernel.Recorder
	pending   pending
	queue     queue
	revoker   revoker
	tasks     *TaskOpener
}

// Upstreams reports whether any provider is a third party, so that a token request may take up
// to MintTime.
func (tp *ThirdParties) Upstreams() bool { return len(tp.upstreams) > 0 }

// enter waits for a slot for a mint, or returns an error with the time after which to try
// again.
func (tp *ThirdParties) enter(ctx context.Context, u *thirdparty.Upstream, taskID string) (leave func(), err error) {
	now := tp.clock.Now()
	if wait := max(u.Quiet.Left(now), u.NoMints.Left(now)); wait > 0 {
		return nil, &broker.Error{Kind: broker.TooMany, Public: "The provider limits the rate of requests. Wait, then try again.", RetryAfter: wait}
	}
	if u.MaxLive > 0 && u.Held.Now() >= u.MaxLive {
		return nil, &broker.Error{Kind: broker.TooMany, Public: "This provider has reached its limit of live credentials. Revoke one or wait for one to expire.", RetryAfter: 10 * time.Second}
	}
	if at := u.Minting.Retry(now); !at.IsZero() {
		return nil, &broker.Error{Kind: broker.Unavailable, Public: "The provider does not answer. Nothing was issued; try again later.", RetryAfter: max(at.Sub(now), time.Second)}
	}
	ctx, cancel := context.WithTimeout(ctx, broker.GateTime)
	defer cancel()
	leave, err = u.Mints.Enter(ctx, taskID)
	if err != nil {
		return nil, &broker.Error{Kind: broker.TooMany, Public: "The provider is busy with other requests. Wait, then try again.", Cause: err, RetryAfter: broker.GateTime}
	}
	return leave, nil
}

// RevocationTarget returns the provider.Target of a lease for Revoke and Probe. Its Now is Timekeeper.Sure,
// and its AcceptedAt is the latest time at which Revoke can have succeeded.
func (tp *ThirdParties) RevocationTarget(l broker.Lease, handle secret.Secret) provider.Target {
	t := tp.useTarget(l, handle)
	t.Now = tp.clock.Sure()
	if !t.AcceptedAt.IsZero() {
		t.AcceptedAt = tp.clock.Latest(t.AcceptedAt)
	}
	return t
}

// useTarget returns the provider.Target of a lease for a request that uses the credential.
func (tp *ThirdParties) useTarget(l broker.Lease, handle secret.Secret) provider.Target {
	t := provider.Target{
		LeaseID: l.ID, Instance: tp.instance, TaskID: l.TaskID, Scopes: l.Scopes, Handle: handle,
		IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, Now: tp.clock.Now(),
	}
	if l.Upstream != nil {
		t.DiesAt, t.AcceptedAt = l.Upstream.DiesAt, l.Upstream.AcceptedAt
	}
	return t
}

// minting is one mint at a third party.
type minting struct {
	b     *ThirdParties
	u     *thirdparty.Upstream
	w     kernel.MintRequest
	d     kernel.Decision
	lease broker.Lease
	turn  pace.Turn
	saved string // the sealed handle that the driver saved on the way
	// handle is the same in clear. The stored one is erased when the revocation queue settles
	// the intent; after that only this copy can find a credential that the provider made since.
	handle secret.Secret
	part   bool // a response contains it, see Seal
}

// MintUpstream mints at a third party (I1, I3). Its steps are those of the package
// documentation. The returned lease has its sealed handle.
func (tp *ThirdParties) MintUpstream(ctx context.Context, w kernel.MintRequest, d kernel.Decision) (broker.Token, broker.Lease, error) {
	u := tp.upstreams[w.Name]
	if !thirdparty.Keeps(w.Promise(), d.Promise) { // the provider's configuration has changed since the approval
		return broker.Token{}, broker.Lease{}, tp.issuer.deny(ctx, w.Caller, w.Scopes, broker.E(broker.Denied, weakerThan, errWeaker))
	}
	leave, err := tp.enter(ctx, u, w.Live.Root())
	if err != nil {
		return broker.Token{}, broker.Lease{}, err
	}
	defer leave()
	l, err := tp.issuer.draft(ctx, w, d)
	if err != nil {
		return broker.Token{}, broker.Lease{}, err
	}
	l.State = broker.LeaseIntent
	l.Upstream = &broker.Upstream{Bound: broker.Seconds(u.Traits.Revocability.Bound / time.Second), NextAt: l.IssuedAt.Add(broker.MintCall + broker.MintSlack)}
	if !u.Traits.Lasting {
		l.Upstream.DiesAt = broker.Earliest(l.ExpiresAt)
		if floor := l.IssuedAt.Add(u.Traits.Floor); floor.After(l.ExpiresAt) {
			l.Upstream.DiesAt = floor
		}
	}
	m := &minting{b: tp, u: u, w: w, d: d, lease: l}
	// From here on a client that disconnects has no effect.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), broker.MintCall)
	defer cancel()
	if err := m.intend(ctx); err != nil { // step 1
		return broker.Token{}, broker.Lease{}, err
	}
	if err := tp.issuer.enliven(ctx, l, w.Live.Task); err != nil { // step 2
		m.turn.Cancel()
		return broker.Token{}, broker.Lease{}, m.never(err)
	}
	cred, err := m.call(ctx) // step 3
	if err != nil {
		return broker.Token{}, broker.Lease{}, err
	}
	exp, err := m.outcome(cred) // step 4
	if err != nil {
		return broker.Token{}, broker.Lease{}, err
	}
	if m.lease.Upstream.Handle == "" { // the stored one
		m.lease.Upstream.Handle = m.saved
	}
	out := broker.Token{
		Token: cred.Token, Type: cred.Type, Format: cred.Format, ExpiresIn: broker.Seconds(exp.Unix() - tp.clock.Now().Unix()), Scopes: l.Scopes,
		LeaseID: l.ID, RequestID: l.RequestID, Class: m.lease.Class,
	}
	out.Deliver(w.Provider, l)
	if w.Details {
		out.Details = scopes.DetailsOf(l.Scopes)
	}
	return out, m.lease, nil
}

// intend makes durable that a credential is about to be minted. It fails when sealing, which
// the outcome needs, does not work now. Without an error the provider's circuit breaker has
// granted the call.
func (m *minting) intend(ctx context.Context) error {
	if _, err := m.b.sealer.Seal(m.lease.ID, secret.New(m.lease.ID)); err != nil {
		return broker.StoreError(fmt.Errorf("sealing: %w", err))
	}
	var granted bool
	if m.turn, granted = m.u.Minting.Try(m.b.clock.Now()); !granted {
		return broker.StoreError(errors.New("the breaker of the provider opened"))
	}
	err := m.issue(ctx)
	if err != nil {
		m.turn.Cancel()
	}
	return err
}

// issue makes the intent durable.
func (m *minting) issue(ctx context.Context) error {
	moved := m.u.Held.Move()
	if err := m.b.issuer.issue(ctx, m.lease, m.d, m.w.Live.Caps.Uses, audit.LeaseIntended); err != nil {
		moved(0)
		return err
	}
	moved(1)
	return nil
}

// call asks the provider. A credential that differs from the decision is refused and revoked.
func (m *minting) call(ctx context.Context) (provider.Credential, error) {
	g := m.b.issuer.grant(m.w, m.lease)
	g.Instance, g.PublicKey, g.Save = m.b.instance, m.w.PublicKey, m.save
	start := time.Now()
	cred, err := thirdparty.Safely(func() (provider.Credential, error) { return m.u.Driver.Mint(ctx, g) })
	m.u.Logged.Mint(err, time.Since(start))
	m.turn.Done(thirdparty.Answered(err), m.b.clock.Now(), thirdparty.Jitter())
	busy, isBusy := errors.AsType[*provider.BusyError](err)
	switch {
	case err == nil:
	case isBusy:
		wait := max(busy.After, time.Second)
		m.u.NoMints.Keep(m.b.clock.Now(), wait)
		return cred, m.never(&broker.Error{Kind: broker.TooMany, Public: "The provider limits the rate of requests. Wait, then try again.", Cause: err, RetryAfter: wait})
	case errors.Is(err, provider.ErrRefused):
		return cred, m.never(broker.E(broker.Denied, thirdparty.Refusal(err), err))
	default:
		return cred, m.fall(cred, err)
	}
	l := m.lease
	switch {
	case cred.Token.Empty() || cred.Type != "DPoP" && cred.Type != "Bearer" && cred.Type != "N_A":
		return cred, m.fall(cred, errors.New("the driver returned no credential that could be issued"))
	case l.Delivery == policy.DeliveryEgress && cred.Handle.Empty():
		return cred, m.fall(cred, errors.New("the driver returned no handle for egress"))
	case l.Delivery == policy.DeliveryEgress && !provider.CanInject(cred.Token):
		return cred, broker.E(broker.Denied, unfindable, m.fall(cred, errUnfindable))
	case cred.ExpiresAt.After(l.ExpiresAt):
		err := m.fall(cred, kernel.ErrWider)
		return cred, broker.E(broker.Internal, "The broker refused to issue more than was asked for.", errors.Join(kernel.ErrWider, err))
	case !thirdparty.Keeps(thirdparty.Weaker(kernel.Promised(m.u.Provider), cred.Revocability), m.d.Promise):
		err := m.fall(cred, errWeaker)
		return cred, broker.E(broker.Denied, weakerThan, errors.Join(errWeaker, err))
	}
	return cred, nil
}

// Egress must find the credential in responses to redact it (I8); it refuses each request with
// a credential that it cannot find.
var errUnfindable = errors.New("the credential is too short or too long for egress to find it in responses")

var unfindable = fmt.Sprintf("The provider's credential is not of %d to %d bytes, so that egress could not find it in responses. Nothing was issued. Ask for delivery token, or configure the provider to issue credentials of that size.", provider.MinInjected, provider.MaxInjected)

// An issued credential must be at least as revocable as the facts that the approvers saw (I7).
var errWeaker = errors.New("the credential is less revocable than approved")

const weakerThan = "The provider's credential is less revocable than was approved. Nothing was issued; tell the operator of the broker: 'ebb providers check' shows it."

// save makes a handle durable while the mint continues.
func (m *minting) save(ctx context.Context, handle secret.Secret) error {
	m.handle = handle
	sealed, err := m.b.sealer.Seal(m.lease.ID, handle)
	if err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	up := *m.lease.Upstream
	m.saved, up.Handle = sealed, sealed
	return m.b.store.Append(ctx, broker.Record{SettleLease: &broker.LeaseMove{
		ID: m.lease.ID, Fence: 1, State: broker.LeaseIntent, At: m.lease.IssuedAt, Hold: up.NextAt, Upstream: up,
	}})
}
