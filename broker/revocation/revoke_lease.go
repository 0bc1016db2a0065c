package revocation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
)

// RevokeLease ends one credential.
func (rv *Revocations) RevokeLease(ctx context.Context, who broker.Principal, id, reason string) (broker.Lease, error) {
	if utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return broker.Lease{}, broker.E(broker.Invalid, "reason must be at most 500 printable characters.", nil)
	}
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	l, err := rv.listings.LeaseFor(look, who, broker.Doubtful, id)
	if err != nil && broker.AsError(err).Kind == broker.Unavailable && who.Has(broker.RoleOperator) {
		return broker.Lease{}, rv.endUnknown(id, who.ID, reason, err)
	}
	if err != nil {
		return broker.Lease{}, err
	}
	limit := endTime
	if who.Doubt != nil {
		limit = soon
	}
	return rv.endLeaseIn(ctx, limit, l, who.ID, reason)
}

// EndLease refuses a credential from now on: in this process and the live store first, then in
// the database. Ending an ended credential is no error, and finishes an earlier end that a
// store had not accepted. A step that fails stays pending. A credential that has expired only by
// a clock that is ahead is refused too.
func (rv *Revocations) EndLease(ctx context.Context, l broker.Lease, by, reason string) (broker.Lease, error) {
	return rv.endLeaseIn(ctx, endTime, l, by, reason)
}

// endLeaseIn is EndLease with a time limit.
func (rv *Revocations) endLeaseIn(ctx context.Context, limit time.Duration, l broker.Lease, by, reason string) (broker.Lease, error) {
	ended, dead := l.State == broker.LeaseRevoked || l.State == broker.LeaseRevoking, broker.LeaseRevoked
	if l.Upstream != nil {
		dead = broker.LeaseRevoking // refused here; the revocation queue settles it at the provider
	}
	if l.TaskID == "" { // it was ended while the database did not answer, so that its expiry is an estimate
		ls, err := rv.store.Leases(ctx, broker.LeaseFilter{IDs: []string{l.ID}, Now: rv.clock.Sure()})
		if err != nil {
			return l, broker.StoreError(err)
		}
		if len(ls) == 0 {
			rv.pending.paidLease(l.ID)
			return l, nil
		}
		return rv.EndLease(ctx, ls[0], by, reason)
	}
	if l.Cause != "" || !rv.clock.Sure().Before(l.ExpiresAt) || !ended && l.State != broker.LeaseLive && l.State != broker.LeaseIntent {
		rv.pending.paidLease(l.ID)
		return l, nil // ended with its task, or expired
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	now := rv.clock.Sure()
	rv.feed.endedInUse(l.TaskID, l.ID, l.ExpiresAt)
	live := broker.LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}
	endLiveStore := func() error {
		ctx, cancel := context.WithTimeout(ctx, kernel.LiveStoreTime)
		defer cancel()
		_, err := rv.liveStore.EndLease(ctx, live, now)
		return err
	}
	lerr := endLiveStore()
	var jerr error
	if !ended {
		e := rv.log.TaskEntry(audit.LeaseRevoked, by, l.TaskID, map[string]string{"reason": reason})
		e.LeaseID = l.ID
		rec := broker.Record{EndLease: &broker.LeaseEnd{ID: l.ID, State: dead, By: by, At: now}, Entries: []audit.Entry{e}}
		if l.TaskID == l.ID { // a token for the API has no lease
			rec.EndLease, rec.Entries[0].TaskID = nil, ""
		}
		jerr = rv.store.Append(ctx, rec)
		if errors.Is(jerr, broker.ErrDone) || errors.Is(jerr, broker.ErrNotFound) {
			jerr = nil // ended before, or signed but never recorded and so never returned
		}
	}
	if lerr == nil && jerr == nil { // once more, as in tryClose
		lerr = errors.Join(endLiveStore(), rv.endNarrowed(ctx, l, now))
	}
	if err := errors.Join(lerr, jerr); err != nil {
		p := &kernel.Progress{}
		p.LiveStore.Store(lerr == nil)
		p.Store.Store(jerr == nil)
		return l, rv.leaseEndPending(kernel.PendingLease{Lease: l, By: by, Reason: reason}, p, err)
	}
	rv.pending.paidLease(l.ID)
	if !ended {
		l.State, l.RevokedAt, l.RevokedBy = dead, now, by
	}
	rv.queue.nudge(l.Provider)
	return l, nil
}

// endTime bounds one attempt to end a credential.
const endTime = 10 * time.Second

func (rv *Revocations) leaseEndPending(o kernel.PendingLease, p *kernel.Progress, cause error) error {
	r := p.Reached(rv.pending.KeepLeaseEnd(o))
	return &broker.Error{Kind: broker.Unavailable, Cause: cause, RetryAfter: 2 * time.Second, Reached: r,
		Public: "The revocation could not be recorded everywhere yet. The token is refused here, and the broker keeps trying. " + r.Sentence() + " Repeat the call to confirm."}
}

// endUnknown refuses a credential here while the database cannot name its owner: an operator
// may end any credential. The rest is done once the database answers.
func (rv *Revocations) endUnknown(id, by, reason string, cause error) error {
	until := rv.clock.Remember()
	rv.feed.Ended(id, until)
	return rv.leaseEndPending(kernel.PendingLease{Lease: broker.Lease{ID: id, ExpiresAt: until, State: broker.LeaseLive}, By: by, Reason: reason}, &kernel.Progress{}, cause)
}

// endNarrowed ends, in the live store and the feed, all leases narrowed from l, at any depth. A
// mint that is still running finds l ended and is not delivered. Until endNarrowed is done
// introspection refuses those tokens too, because a token names its parents.
func (rv *Revocations) endNarrowed(ctx context.Context, l broker.Lease, now time.Time) error {
	level := []string{l.ID}
	for depth := 0; len(level) > 0 && depth < kernel.MaxLineage && l.TaskID != l.ID; depth++ {
		var mu sync.Mutex
		var next []string
		for parents := range slices.Chunk(level, kernel.RefillPage) {
			_, err := kernel.EachLease(ctx, rv.store, broker.LeaseFilter{Now: rv.clock.Sure(), Parents: parents}, func(c broker.Lease) error {
				mu.Lock()
				next = append(next, c.ID)
				mu.Unlock()
				if !c.ExpiresAt.After(now) {
					return nil
				}
				if c.Upstream != nil { // a third party does not know of the parent's end
					_, err := rv.EndLease(ctx, c, kernel.Self, "part of an ended credential")
					return err
				}
				rv.feed.endedInUse(c.TaskID, c.ID, c.ExpiresAt)
				_, err := rv.liveStore.EndLease(ctx, broker.LiveLease{ID: c.ID, TaskID: c.TaskID, ExpiresAt: c.ExpiresAt}, now)
				return err
			})
			if err != nil {
				return err
			}
		}
		level = next
	}
	return nil
}

// Introspect implements RFC 7662. Unknown, expired, revoked, malformed and foreign tokens all
// give the same zero Introspection, and so does a token for an audience that is not the
// caller's: the answer reveals nothing. If the state is unknown it is an error, never active.
func (rv *Revocations) Introspect(ctx context.Context, who broker.Principal, token string) (broker.Introspection, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleResourceServer, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return broker.Introspection{}, err
	}
	leave, err := rv.evidence.EnterCrowd(ctx, rv.crowd.Introspections, who.ID)
	if err != nil {
		return broker.Introspection{}, err
	}
	defer leave()
	t, err := rv.callers.VerifyOwn(token, "", rv.clock.Now())
	if err != nil {
		if e := broker.AsError(err); e.Kind == broker.Unavailable {
			return broker.Introspection{}, e
		}
		return rv.inactive()
	}
	if t.TaskID == "" || (!who.Has(broker.RoleOperator, broker.RoleAuditor) && !slices.Contains(who.Audiences, t.Aud)) {
		return rv.inactive()
	}
	alive, err := rv.callers.AliveToken(ctx, t)
	if err != nil {
		rv.m.Introspect.WithLabelValues("unavailable").Inc()
		return broker.Introspection{}, broker.StoreError(err)
	}
	if !alive {
		return rv.inactive()
	}
	rv.m.Introspect.WithLabelValues("active").Inc()
	kind := "Bearer" // RFC 8705 section 3: mTLS-bound tokens keep Bearer
	if t.Bind.JKT != "" {
		kind = "DPoP"
	}
	return broker.Introspection{Active: true, Claims: t.Payload, Type: kind}, nil
}

func (rv *Revocations) inactive() (broker.Introspection, error) {
	rv.m.Introspect.WithLabelValues("inactive").Inc()
	return broker.Introspection{}, nil
}

// RevokeToken implements RFC 7009. It ends one token or, by its lease id, any credential, or
// withdraws the request behind a deferral code. An unknown, malformed or ended token is
// success. A token of another sandbox stays untouched, with the same answer.
func (rv *Revocations) RevokeToken(ctx context.Context, r broker.Revoker, token string) error {
	who, err := rv.revoker(ctx, r)
	if err != nil {
		return err
	}
	id, _, isCode := rv.approvals.RequestOfCode(token)
	isLease := broker.ValidID(broker.LeasePrefix, token)
	switch {
	case (isCode || isLease) && who.owns:
		return notOwn()
	case isCode:
		return rv.withdrawOwn(ctx, id, who)
	case isLease:
		return rv.endByID(ctx, token, who)
	}
	// By Now first: while a clock that was behind is being set right, Sure can be before the token's iat.
	t, err := rv.callers.VerifyOwn(token, "", rv.clock.Now())
	if err != nil { // it may have expired only by a clock that is ahead
		t, err = rv.callers.VerifyOwn(token, "", rv.clock.Sure())
	}
	if err != nil {
		if e := broker.AsError(err); e.Kind == broker.Unavailable {
			return e
		}
		return nil
	}
	if t.TaskID == "" && t.Aud != rv.issuerURL+kernel.ApiPath {
		return nil
	}
	by, err := who.may(t.ClientID, t.Bind)
	if by == "" {
		return err
	}
	return rv.endToken(ctx, t, by, who.limit)
}

// endToken ends a token of ebb's own. The token holds everything that is needed, so that it can
// be ended while the database is down. A token for the API belongs to no task.
func (rv *Revocations) endToken(ctx context.Context, t *kernel.OwnToken, by string, limit time.Duration) error {
	l := broker.Lease{ID: t.ID, TaskID: t.TaskID, Sandbox: t.ClientID, ExpiresAt: t.Exp, State: broker.LeaseLive}
	if l.TaskID == "" {
		l.TaskID = t.ID
	}
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	ls, err := rv.store.Leases(look, broker.LeaseFilter{IDs: []string{t.ID}, Now: rv.clock.Sure()})
	if err == nil && len(ls) == 1 {
		l = ls[0] // an earlier end keeps its cause
	}
	if err != nil {
		limit = soon
	}
	_, err = rv.endLeaseIn(ctx, limit, l, by, "")
	return err
}

// endByID ends a credential by its lease id, because ebb cannot recognise a third party's
// credential by its text.
func (rv *Revocations) endByID(ctx context.Context, id string, who revoker) error {
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	ls, err := rv.store.Leases(look, broker.LeaseFilter{IDs: []string{id}, Now: rv.clock.Sure()})
	if err != nil && who.operator {
		return rv.endUnknown(id, who.id, "", err)
	}
	if err != nil {
		return broker.StoreError(err)
	}
	if len(ls) == 0 {
		return who.doubt
	}
	by, err := who.may(ls[0].Sandbox, ls[0].Binding)
	if by == "" {
		return err
	}
	_, err = rv.endLeaseIn(ctx, who.limit, ls[0], by, "")
	return err
}

// withdrawOwn withdraws the pending request of a deferral code.
func (rv *Revocations) withdrawOwn(ctx context.Context, id string, who revoker) error {
	rs, err := rv.approvalStore.Requests(ctx, broker.RequestFilter{IDs: []string{id}})
	if err != nil {
		return broker.StoreError(err)
	}
	if len(rs) == 0 {
		return who.doubt
	}
	by, err := who.may(rs[0].Sandbox, rs[0].Binding)
	if by == "" {
		return err
	}
	_, err = rv.Withdraw(ctx, rs[0], by, "client")
	return err
}

// revoker is the caller that ends a credential: a principal or a sandbox.
type revoker struct {
	id       string // of the principal or the sandbox; "" = no store could identify the sandbox
	operator bool   // may end every credential
	owns     bool   // a principal other than an operator: may end only its own tokens for the API
	// doubt is why no store could identify the sandbox. Credentials bound to key, which it has
	// proved, are its own even so.
	doubt error
	key   provider.Binding
	limit time.Duration // how long an end is tried before the response
}

// revoker authenticates the caller.
func (rv *Revocations) revoker(ctx context.Context, r broker.Revoker) (revoker, error) {
	if p := r.Principal; p != nil {
		who := revoker{id: p.ID, operator: p.Has(broker.RoleOperator), owns: !p.Has(broker.RoleOperator), limit: endTime}
		if p.Doubt != nil {
			who.limit = soon
		}
		return who, broker.Allow(*p, broker.Doubtful, p.Roles...)
	}
	if r.Subject == nil {
		return revoker{}, broker.E(broker.Unauthenticated, "Authenticate first.", nil)
	}
	ctx, cancel := context.WithTimeout(ctx, kernel.ProofTime)
	defer cancel()
	id, err := rv.revokingSandbox(ctx, *r.Subject, r.Possession)
	if key := r.Possession.Binding(); err != nil && broker.AsError(err).Kind == broker.Unavailable && key != (provider.Binding{}) {
		return revoker{doubt: err, key: key, limit: soon}, nil
	}
	return revoker{id: id, limit: endTime}, err
}

// revokingSandbox authenticates a sandbox that revokes its own credential. An assertion alone
// is enough: RFC 7009 requires no proof, and ordinary clients send none.
func (rv *Revocations) revokingSandbox(ctx context.Context, s broker.Subject, p broker.Possession) (string, error) {
	if p.Key.JKT != "" || s.Assertion == "" {
		a, err := rv.callers.Ask(ctx, kernel.ToEnd, s, p)
		return a.Sandbox.ID, err
	}
	sandbox, err := rv.callers.AssertedSandbox(ctx, s.Assertion, p)
	if err == nil && s.ClientID != "" && s.ClientID != sandbox.ID {
		err = broker.E(broker.Unauthenticated, "client_id differs from the sandbox that was authenticated.", nil)
	}
	return sandbox.ID, err
}

// may returns the name under which a credential issued to client and bound to key is ended. If
// the caller may not end it, by is "" and err is the answer; nil as the answer does not reveal
// the owner.
func (r revoker) may(client string, key provider.Binding) (by string, err error) {
	switch {
	case r.operator, r.id != "" && r.id == client:
		return r.id, nil
	case r.owns:
		return "", notOwn()
	case r.doubt != nil && r.key == key:
		return client, nil
	}
	return "", r.doubt
}

func notOwn() error {
	return broker.E(broker.Forbidden, "Your principal may revoke its own access tokens for this API, and nothing else. Ask an operator.", nil)
}

// Withdraw settles a pending or approved request as withdrawn; a request in a final state is
// not changed.
func (rv *Revocations) Withdraw(ctx context.Context, r broker.Request, by, why string) (bool, error) {
	if r.State != broker.RequestPending && r.State != broker.RequestApproved {
		return false, nil
	}
	e := rv.RequestEntry(audit.RequestWithdrawn, by, r, map[string]string{"why": why})
	_, err := rv.approvalStore.Settle(ctx, r.ID, r.State, broker.RequestWithdrawn, rv.clock.Now(), broker.Record{Entries: []audit.Entry{e}})
	if errors.Is(err, broker.ErrDone) {
		return false, nil
	}
	if err != nil {
		return false, broker.StoreError(err)
	}
	rv.m.Requests.WithLabelValues("withdrawn").Inc()
	return true, nil
}

// RequestEntry returns an audit entry about a request.
func (rv *Revocations) RequestEntry(kind, actor string, r broker.Request, data any) audit.Entry {
	e := rv.log.TaskEntry(kind, actor, r.TaskID, data)
	e.RequestID = r.ID
	return e
}
