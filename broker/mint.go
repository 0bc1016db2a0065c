package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/audit"
	"ebb/broker/pace"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// minting is one mint at a third party.
type minting struct {
	b     *Broker
	u     *upstream
	w     want
	d     decided
	lease Lease
	turn  pace.Turn
	saved string // the sealed handle that the driver saved on the way
	// handle is the same in the clear. What is stored is erased when a lane settles the
	// intent, and then this alone finds what the provider has made since.
	handle provider.Secret
	part   bool // an answer makes it, see Seal
}

// mintUpstream mints at a third party (I1, I3). The steps are those of the package
// comment, where it says what a crash leaves behind at each. The lease has its sealed
// handle.
func (b *Broker) mintUpstream(ctx context.Context, w want, d decided) (Token, Lease, error) {
	u := b.upstreams[w.name]
	if !keeps(w.promise(), d.promise) { // the provider is configured otherwise since people said yes
		return Token{}, Lease{}, b.deny(ctx, w.asker, w.scopes, E(Denied, weakerThan, errWeaker))
	}
	leave, err := b.enter(ctx, u, w.live.root())
	if err != nil {
		return Token{}, Lease{}, err
	}
	defer leave()
	l, err := b.draft(ctx, w, d)
	if err != nil {
		return Token{}, Lease{}, err
	}
	l.State = LeaseIntent
	l.Upstream = &Upstream{Bound: Seconds(u.traits.Revocability.Bound / time.Second), NextAt: l.IssuedAt.Add(mintTime + mintSlack)}
	if !u.traits.Lasting {
		l.Upstream.DiesAt = earliest(l.ExpiresAt)
		if floor := l.IssuedAt.Add(u.traits.Floor); floor.After(l.ExpiresAt) {
			l.Upstream.DiesAt = floor
		}
	}
	m := &minting{b: b, u: u, w: w, d: d, lease: l}
	// From here on a client that hangs up changes nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mintTime)
	defer cancel()
	if err := m.intend(ctx); err != nil { // step 1
		return Token{}, Lease{}, err
	}
	if err := b.enliven(ctx, l, w.live.Task); err != nil { // step 2
		m.turn.Cancel()
		return Token{}, Lease{}, m.never(err)
	}
	cred, err := m.call(ctx) // step 3
	if err != nil {
		return Token{}, Lease{}, err
	}
	exp, err := m.outcome(cred) // step 4
	if err != nil {
		return Token{}, Lease{}, err
	}
	if m.lease.Upstream.Handle == "" { // the stored one
		m.lease.Upstream.Handle = m.saved
	}
	out := Token{
		Token: cred.Token, Type: cred.Type, Format: cred.Format, ExpiresIn: Seconds(exp.Unix() - b.now().Unix()), Scopes: l.Scopes,
		LeaseID: l.ID, RequestID: l.RequestID, Class: m.lease.Class,
	}
	out.deliver(w.provider, l)
	if w.details {
		out.Details = scopes.DetailsOf(l.Scopes)
	}
	return out, m.lease, nil
}

// intend makes durable that something is about to come into being. It fails when
// what will be needed to record the outcome is not there now. Without an error the
// provider's breaker has granted the call.
func (m *minting) intend(ctx context.Context) error {
	if _, err := m.b.cfg.Sealer.Seal(m.lease.ID, provider.NewSecret(m.lease.ID)); err != nil {
		return unavailable(fmt.Errorf("sealing: %w", err))
	}
	var granted bool
	if m.turn, granted = m.u.minting.Try(m.b.now()); !granted {
		return unavailable(errors.New("the breaker of the provider opened"))
	}
	err := m.issue(ctx)
	if err != nil {
		m.turn.Cancel()
	}
	return err
}

// issue makes the intent durable.
func (m *minting) issue(ctx context.Context) error {
	moved := m.u.held.move()
	if err := m.b.issue(ctx, m.lease, m.d, m.w.live.Caps.Uses, audit.LeaseIntended); err != nil {
		moved(0)
		return err
	}
	moved(1)
	return nil
}

// call asks the provider. A credential that is not what was decided is refused
// and taken back.
func (m *minting) call(ctx context.Context) (provider.Credential, error) {
	g := m.b.grant(m.w, m.lease)
	g.Instance, g.PublicKey, g.Save = m.b.instance, m.w.publicKey, m.save
	start := time.Now()
	cred, err := safely(func() (provider.Credential, error) { return m.u.Driver.Mint(ctx, g) })
	m.u.logged.mint(err, time.Since(start))
	m.turn.Done(answered(err), m.b.now(), jitter())
	busy, isBusy := errors.AsType[*provider.BusyError](err)
	switch {
	case err == nil:
	case isBusy:
		wait := max(busy.After, time.Second)
		m.u.noMints.keep(m.b.now(), wait)
		return cred, m.never(&Error{Kind: TooMany, Public: "The provider limits how often it may be asked. Wait, then try again.", Cause: err, RetryAfter: wait})
	case errors.Is(err, provider.ErrRefused):
		return cred, m.never(E(Denied, refusal(err), err))
	default:
		return cred, m.fall(cred, err)
	}
	l := m.lease
	switch {
	case cred.Token.Empty() || cred.Type != "DPoP" && cred.Type != "Bearer" && cred.Type != "N_A":
		return cred, m.fall(cred, errors.New("the driver returned no credential that could be handed out"))
	case l.Delivery == policy.DeliveryEgress && cred.Handle.Empty():
		return cred, m.fall(cred, errors.New("the driver returned nothing that egress could work from"))
	case l.Delivery == policy.DeliveryEgress && !cred.Token.CanInject():
		return cred, E(Denied, unfindable, m.fall(cred, errUnfindable))
	case cred.ExpiresAt.After(l.ExpiresAt):
		err := m.fall(cred, errWider)
		return cred, E(Internal, "The broker refused to issue more than was asked for.", errors.Join(errWider, err))
	case !keeps(weaker(promised(m.u.Provider), cred.Revocability), m.d.promise):
		err := m.fall(cred, errWeaker)
		return cred, E(Denied, weakerThan, errors.Join(errWeaker, err))
	}
	return cred, nil
}

// What comes back of a credential has to be found (I8), or each of its requests would be
// refused.
var errUnfindable = errors.New("the credential is too short or too long for egress to look for it in answers")

var unfindable = fmt.Sprintf("The provider's credential is not of %d to %d bytes: egress could not look for it in answers. Nothing was issued. Ask for delivery token, or have the provider make smaller ones.", provider.MinInjected, provider.MaxInjected)

// What is handed out can be taken back at least as surely as those were told who
// decided (I7).
var errWeaker = errors.New("the credential cannot be taken back as surely as was decided on")

const weakerThan = "The provider's credential cannot be taken back as surely as was decided on. Nothing was issued; tell the operator of the broker: ebb providers check shows it."

// refusal is the sentence of a provider.Refused for the caller.
func refusal(err error) string {
	if r, ok := errors.AsType[*provider.RefusedError](err); ok && r.Public != "" {
		return r.Public
	}
	return "The provider refused. Ask for something else, or ask the operator."
}

// save makes a handle durable while the mint goes on.
func (m *minting) save(ctx context.Context, handle provider.Secret) error {
	m.handle = handle
	sealed, err := m.b.cfg.Sealer.Seal(m.lease.ID, handle)
	if err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	up := *m.lease.Upstream
	m.saved, up.Handle = sealed, sealed
	return m.b.cfg.Journal.Append(ctx, Record{SettleLease: &LeaseMove{
		ID: m.lease.ID, Fence: 1, State: LeaseIntent, At: m.b.now(), Hold: up.NextAt, Upstream: up,
	}})
}
