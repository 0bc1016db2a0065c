package revocation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
)

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
	t, err := rv.callers.VerifyOwn(token, "")
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
	t, err := rv.callers.VerifyOwn(token, "")
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
	ls, err := rv.store.Leases(look, broker.LeaseFilter{IDs: []string{t.ID}, Now: rv.clock.Now()})
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
	ls, err := rv.store.Leases(look, broker.LeaseFilter{IDs: []string{id}, Now: rv.clock.Now()})
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
