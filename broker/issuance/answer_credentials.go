package issuance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Sealing holds the credentials that the response to one request through egress may contain.
// Each sealed member of the response has an intent, which is durable before the request is sent
// (I3). Keep or Nothing records the outcome; Close is called when the outcome is unknown. It
// belongs to one request, and to one goroutine at a time.
type Sealing struct {
	what    provider.Sealing
	of      []*minting // in the order of what.Members
	settled bool
}

var (
	errNoneMade = errors.New("the response contained no such credential")
	errUnread   = errors.New("the credentials in the response could not be stored")
)

// maxSealedLife bounds the lifetime that a response may state for a credential.
const maxSealedLife = 10 * 365 * 24 * time.Hour

// maxParts bounds the live parts of one lease for each member of its responses. Without it,
// frequent logins would use up the task's limit of leases. The oldest part is ended for the
// newest.
const maxParts = 32

// Seal records intents for the credentials that the response to a request may contain. Their
// leases are parts of the lease in use: they have its task, tool and sandbox, at most its
// scopes and lifetime, and end with it. They count as mints of the task. After an error the
// request must not be sent.
func (tp *ThirdParties) Seal(ctx context.Context, c broker.Caller, use broker.Usable, what provider.Sealing) (*Sealing, error) {
	u := tp.upstreams[use.Lease.Provider]
	if u == nil || !u.Traits.Seals || len(what.Members) == 0 || what.Lifetime <= 0 {
		return nil, broker.StoreError(errors.New("the provider contradicts itself on whether its responses contain credentials"))
	}
	if what.Scopes.Empty() {
		return nil, broker.E(broker.Denied, "The response would contain a credential, and the lease covers no request that it could be added to. Ask for the scopes of those requests as well.", nil)
	}
	if use.Lease.Content != "" {
		return nil, broker.E(broker.Denied, "The response would contain a credential, and the lease is limited to one request. Ask for a credential without content.", nil)
	}
	live, err := tp.admission.Admit(ctx, kernel.ToMint, c.TaskID, broker.Possession{}, broker.InvalidGrant)
	if err == nil && live.State != broker.TaskOpen {
		err = kernel.PausedError()
	}
	if err != nil {
		return nil, err
	}
	w, d := tp.part(use.Lease, live, what)
	if !thirdparty.Keeps(w.Promise(), d.Promise) { // the provider's configuration has changed since the approval
		return nil, tp.issuer.deny(ctx, w.Caller, w.Scopes, broker.E(broker.Denied, weakerThan, errWeaker))
	}
	leave, err := tp.enter(ctx, u, live.Root())
	if err != nil {
		return nil, err
	}
	leave() // the sandbox decides how long its request takes: it must not hold a slot meanwhile
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), broker.MintCall)
	defer cancel()
	s := &Sealing{what: what}
	for range what.Members {
		m, err := tp.intendPart(ctx, u, w, d, what.Lifetime)
		if err != nil {
			s.Nothing()
			return nil, err
		}
		s.of = append(s.of, m)
	}
	return s, nil
}

// part returns the mint request and the decision for a part of a lease, both copied from the
// lease.
func (tp *ThirdParties) part(l broker.Lease, live broker.Live, what provider.Sealing) (kernel.MintRequest, kernel.Decision) {
	parent := &kernel.OwnToken{ID: l.ID, TaskID: l.TaskID, Txn: l.Txn, Exp: l.ExpiresAt, Scopes: l.Scopes, Bind: l.Binding}
	if l.ParentID != "" {
		parent.Lineage = append(parent.Lineage, l.ParentID)
	}
	parent.Lineage = append(parent.Lineage, l.ID)
	ttl := l.ExpiresAt.Sub(tp.clock.Now())
	w := kernel.MintRequest{
		Caller: kernel.Caller{Live: live, Sandbox: broker.Sandbox{ID: l.Sandbox}, Parent: parent, Lineage: parent.Lineage, Bind: l.Binding},
		Scopes: what.Scopes, Name: l.Provider, Provider: tp.providers[l.Provider], TTL: ttl, Tool: l.Tool, Delivery: policy.DeliveryEgress,
	}
	return w, kernel.Decision{Scopes: what.Scopes, TTL: ttl, Rules: []string{l.Rule}, RequestID: l.RequestID, Promise: provider.Revocability{Class: l.Class}, MaxAmount: l.MaxAmount}
}

// intendPart makes one intent durable and stores it in the live store.
func (tp *ThirdParties) intendPart(ctx context.Context, u *thirdparty.Upstream, w kernel.MintRequest, d kernel.Decision, lives time.Duration) (*minting, error) {
	l, err := tp.issuer.draft(ctx, w, d)
	if err != nil {
		return nil, err
	}
	l.State = broker.LeaseIntent
	l.Upstream = &broker.Upstream{DiesAt: l.IssuedAt.Add(lives), NextAt: l.IssuedAt.Add(broker.MintCall + broker.MintSlack)}
	m := &minting{b: tp, u: u, w: w, d: d, lease: l, part: true}
	// The outcome must be sealed later, so sealing must work before the request is sent.
	if _, err := tp.sealer.Seal(l.ID, secret.New(l.ID)); err != nil {
		return nil, broker.StoreError(fmt.Errorf("sealing: %w", err))
	}
	if err := m.issue(ctx); err != nil {
		return nil, err
	}
	if err := tp.issuer.enliven(ctx, l, w.Live.Task); err != nil {
		return nil, m.never(err)
	}
	return m, nil
}

// Leases returns the ids of the intended leases, in the order of the members.
func (s *Sealing) Leases() []string {
	ids := make([]string, len(s.of))
	for i, m := range s.of {
		ids[i] = m.lease.ID
	}
	return ids
}

// Keep seals the credentials of the response, by member. lives is their lifetime, 0 when the
// response does not state one. After nil every credential is recorded and live under its lease,
// and the placeholders may be returned to the sandbox (I1). After an error no credential of the
// response can be used.
func (s *Sealing) Keep(values map[string]secret.Secret, lives time.Duration) error {
	s.settled = true
	if lives <= 0 {
		lives = s.what.Lifetime
	}
	lives = min(lives, maxSealedLife)
	var failed error
	kept := map[*minting]provider.Credential{}
	for i, m := range s.of {
		value := values[s.what.Members[i]]
		if value.Empty() {
			_ = m.never(errNoneMade) // the response left it out, so there is no error to report
			continue
		}
		cred := provider.Credential{
			Token: value, Type: "Bearer", Handle: s.what.Handle(value), Revocability: provider.Revocability{Class: provider.ClassTTLOnly},
			ExpiresAt: m.lease.IssuedAt.Add(lives), DiesAt: m.b.clock.Now().Add(lives),
		}
		switch {
		case failed != nil:
			_ = m.fall(cred, errUnread)
		default:
			if _, failed = m.outcome(cred); failed == nil {
				kept[m] = cred
			}
		}
	}
	if failed != nil {
		for m, cred := range kept { // all or none: the sandbox gets no part of the response
			_ = m.fall(cred, errUnread)
		}
		return failed
	}
	s.makeRoom()
	return nil
}

// makeRoom ends the oldest parts of a lease beyond maxParts. Concurrent calls each read the
// parts after recording their own, so that the last of them sees all.
func (s *Sealing) makeRoom() {
	b, l := s.of[0].b, s.of[0].lease
	ctx, cancel := context.WithTimeout(context.Background(), broker.FailTime)
	defer cancel()
	ls, err := b.store.Leases(ctx, broker.LeaseFilter{Parents: []string{l.ParentID}, State: broker.LeaseLive, Upstream: true, Now: b.clock.Now(), Page: broker.Page{Limit: 1000, Desc: true}})
	if err != nil {
		b.logger.WarnContext(ctx, "the live parts of a lease could not be read", "lease_id", l.ParentID, "error", err)
		return
	}
	for _, old := range ls[min(len(ls), maxParts*len(s.of)):] {
		if _, err := b.revoker.EndLease(ctx, old, kernel.Self, "newer parts of the same lease have taken its place"); err != nil { // on failure the revocation stays pending
			b.logger.WarnContext(ctx, "ending an old part of a lease failed; its revocation stays pending", "lease_id", old.ID, "error", err)
		}
	}
}

// Nothing records that no credential was made: the request was not sent, or the response says
// so.
func (s *Sealing) Nothing() {
	s.settled = true
	for _, m := range s.of {
		_ = m.never(errNoneMade) // on failure the revocation queue settles it
	}
}

// Close revokes the credentials of an unknown outcome: one may exist, and the sandbox has not
// got it.
func (s *Sealing) Close() {
	if s.settled {
		return
	}
	s.settled = true
	for _, m := range s.of {
		_ = m.fall(provider.Credential{}, errUnread) // on failure the revocation stays pending
	}
}
