package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/provider"
	"ebb/scopes/policy"
)

// Sealing is what the answer to one request through egress may make: for each member that is read
// an intent, which is durable before the request leaves (I3). Keep or Nothing says what came of it;
// Close does for who knows nothing. It is used by one request, and by one goroutine at a time.
type Sealing struct {
	what    provider.Sealing
	of      []*minting // in the order of what.Members
	settled bool
}

var (
	errNoneMade = errors.New("the answer has made no such credential")
	errUnread   = errors.New("what the answer has made could not be kept")
)

// maxSealedLife bounds what an answer may say of how long a credential lives.
const maxSealedLife = 10 * 365 * 24 * time.Hour

// maxParts bounds what lives of one lease for each member of its answers: who logs in often leaves what its
// task may hold to others. The oldest is ended for the newest.
const maxParts = 32

// Seal intends the credentials that the answer to a request may make, under leases that are a part of
// the one in use: of its task, tool and sandbox, no longer, for no more, and over when it is. They
// count as mints of the task. Without one the request must not leave.
func (b *Broker) Seal(ctx context.Context, c Caller, use Usable, what provider.Sealing) (*Sealing, error) {
	u := b.upstreams[use.lease.Provider]
	if u == nil || !u.traits.Seals || len(what.Members) == 0 || what.Lifetime <= 0 {
		return nil, unavailable(errors.New("the provider says in two ways whether its answers make credentials"))
	}
	if what.Scopes.Empty() {
		return nil, E(Denied, "The answer makes a credential, and the lease is for none of the requests that it would be added to. Ask for those as well.", nil)
	}
	live, err := b.admit(ctx, toMint, c.TaskID, Possession{}, InvalidGrant)
	if err == nil && live.State != TaskOpen {
		err = pausedError()
	}
	if err != nil {
		return nil, err
	}
	w, d := b.part(use.lease, live, what)
	if !keeps(w.promise(), d.promise) { // the provider is configured otherwise since people said yes
		return nil, b.deny(ctx, w.asker, w.scopes, E(Denied, weakerThan, errWeaker))
	}
	leave, err := b.enter(ctx, u, live.root())
	if err != nil {
		return nil, err
	}
	leave() // a box says how long its request takes: that is nobody's place
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mintTime)
	defer cancel()
	s := &Sealing{what: what}
	for range what.Members {
		m, err := b.intendPart(ctx, u, w, d, what.Lifetime)
		if err != nil {
			s.Nothing()
			return nil, err
		}
		s.of = append(s.of, m)
	}
	return s, nil
}

// part is a want for a part of a lease, and what was decided of that: what was of the lease.
func (b *Broker) part(l Lease, live Live, what provider.Sealing) (want, decided) {
	parent := &ownToken{id: l.ID, taskID: l.TaskID, txn: l.Txn, exp: l.ExpiresAt, scopes: l.Scopes, bind: l.Binding}
	if l.ParentID != "" {
		parent.lineage = append(parent.lineage, l.ParentID)
	}
	parent.lineage = append(parent.lineage, l.ID)
	ttl := l.ExpiresAt.Sub(b.now())
	w := want{
		asker:  asker{live: live, sandbox: Sandbox{ID: l.Sandbox}, parent: parent, lineage: parent.lineage},
		scopes: what.Scopes, name: l.Provider, provider: b.cfg.Providers[l.Provider], ttl: ttl, bind: l.Binding, tool: l.Tool, delivery: policy.DeliveryEgress,
	}
	return w, decided{scopes: what.Scopes, ttl: ttl, rules: []string{l.Rule}, requestID: l.RequestID, promise: provider.Revocability{Class: l.Class}}
}

// intendPart makes one intent durable and known to the ledger.
func (b *Broker) intendPart(ctx context.Context, u *upstream, w want, d decided, lives time.Duration) (*minting, error) {
	l, err := b.draft(ctx, w, d)
	if err != nil {
		return nil, err
	}
	l.State = LeaseIntent
	l.Upstream = &Upstream{DiesAt: l.IssuedAt.Add(lives), NextAt: l.IssuedAt.Add(mintTime + mintSlack)}
	m := &minting{b: b, u: u, w: w, d: d, lease: l, part: true}
	// What will be needed to keep the outcome has to be there before the request leaves.
	if _, err := b.cfg.Sealer.Seal(l.ID, provider.NewSecret(l.ID)); err != nil {
		return nil, unavailable(fmt.Errorf("sealing: %w", err))
	}
	if err := m.issue(ctx); err != nil {
		return nil, err
	}
	if err := b.enliven(ctx, l, w.live.Task); err != nil {
		return nil, m.never(err)
	}
	return m, nil
}

// Leases are the ids of what is intended, in the order of the members.
func (s *Sealing) Leases() []string {
	ids := make([]string, len(s.of))
	for i, m := range s.of {
		ids[i] = m.lease.ID
	}
	return ids
}

// Keep seals what the answer has made, by member; lives is how long it does, 0 = the answer does not
// say. When it returns nil all of it is on the record and alive under its lease, and what stands
// for it may be handed on (I1). After an error nothing of it can be used.
func (s *Sealing) Keep(values map[string]provider.Secret, lives time.Duration) error {
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
			_ = m.never(errNoneMade) // nobody is told of one that the answer left out
			continue
		}
		cred := provider.Credential{
			Token: value, Type: "Bearer", Handle: s.what.Handle(value), Revocability: provider.Revocability{Class: provider.ClassTTLOnly},
			ExpiresAt: m.lease.IssuedAt.Add(lives), DiesAt: m.b.now().Add(lives),
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
		for m, cred := range kept { // nobody is handed a part
			_ = m.fall(cred, errUnread)
		}
		return failed
	}
	s.makeRoom()
	return nil
}

// makeRoom ends the oldest parts of a lease that are more than maxParts. Those that race each look when their
// own are on the record, so that the last of them sees all.
func (s *Sealing) makeRoom() {
	b, l := s.of[0].b, s.of[0].lease
	ctx, cancel := context.WithTimeout(context.Background(), failTime)
	defer cancel()
	ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{Parents: []string{l.ParentID}, State: LeaseLive, Upstream: true, Now: b.now(), Page: Page{Limit: 1000, Desc: true}})
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "how many parts of a lease are alive could not be read", "lease_id", l.ParentID, "error", err)
		return
	}
	for _, old := range ls[min(len(ls), maxParts*len(s.of)):] {
		if _, err := b.endLease(ctx, old, self, "newer parts of the same lease have taken its place"); err != nil { // what fails is owed
			b.cfg.Logger.WarnContext(ctx, "a part of a lease could not be ended yet", "lease_id", old.ID, "error", err)
		}
	}
}

// Nothing says that the request has made no credential: it did not leave, or the answer says so.
func (s *Sealing) Nothing() {
	s.settled = true
	for _, m := range s.of {
		_ = m.never(errNoneMade) // what fails the lane settles
	}
}

// Close gives up what nothing was said of: a credential may exist, which nobody has.
func (s *Sealing) Close() {
	if s.settled {
		return
	}
	s.settled = true
	for _, m := range s.of {
		_ = m.fall(provider.Credential{}, errUnread) // what fails is owed
	}
}
