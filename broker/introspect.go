package broker

import (
	"context"
	"errors"
	"slices"

	"ebb/broker/audit"
)

// Introspect answers RFC 7662. Unknown, expired, revoked, malformed and foreign
// tokens are all the same zero Introspection, and so is a token for an audience
// that is not the caller's: nobody learns anything by asking. In doubt it is an
// error, never active.
func (b *Broker) Introspect(ctx context.Context, who Principal, token string) (Introspection, error) {
	if err := allow(who, certain, RoleResourceServer, RoleOperator, RoleAuditor); err != nil {
		return Introspection{}, err
	}
	leave, err := b.enterCrowd(ctx, b.crowd.introspections, who.ID)
	if err != nil {
		return Introspection{}, err
	}
	defer leave()
	t, err := b.verifyOwn(token, "")
	if err != nil {
		if e := AsError(err); e.Kind == Unavailable {
			return Introspection{}, e
		}
		return b.inactive()
	}
	if t.taskID == "" || (!who.Has(RoleOperator, RoleAuditor) && !slices.Contains(who.Audiences, t.aud)) {
		return b.inactive()
	}
	alive, err := b.aliveToken(ctx, t)
	if err != nil {
		b.m.introspect.WithLabelValues("unavailable").Inc()
		return Introspection{}, unavailable(err)
	}
	if !alive {
		return b.inactive()
	}
	b.m.introspect.WithLabelValues("active").Inc()
	kind := "Bearer" // RFC 8705 section 3: mTLS-bound tokens keep Bearer
	if t.bind.JKT != "" {
		kind = "DPoP"
	}
	return Introspection{Active: true, Claims: t.payload, Type: kind}, nil
}

func (b *Broker) inactive() (Introspection, error) {
	b.m.introspect.WithLabelValues("inactive").Inc()
	return Introspection{}, nil
}

// RevokeToken is RFC 7009: it ends one token or, by its lease id, any credential, or
// withdraws the request behind a deferral code. A token that is unknown, malformed or already dead is success;
// a token of somebody else stays untouched, and the answer is the same.
func (b *Broker) RevokeToken(ctx context.Context, r Revoker, token string) error {
	sandbox, by, err := b.revoker(ctx, r)
	if err != nil {
		return err
	}
	if id, _, is := b.requestOfCode(token); is {
		return b.withdrawOwn(ctx, id, sandbox, by)
	}
	if validID(leasePrefix, token) {
		return b.endByID(ctx, token, sandbox, by)
	}
	t, err := b.verifyOwn(token, "")
	if err != nil {
		if e := AsError(err); e.Kind == Unavailable {
			return e
		}
		return nil
	}
	switch {
	case sandbox != "" && t.clientID != sandbox:
		return nil
	case t.taskID == "" && t.aud != b.cfg.Issuer+apiPath:
		return nil
	}
	// The token says all that is needed: a journal that is down does not keep it
	// alive. A token for the API is of no task and stands for itself.
	l := Lease{ID: t.id, TaskID: t.taskID, Sandbox: t.clientID, ExpiresAt: t.exp, State: LeaseLive}
	if l.TaskID == "" {
		l.TaskID = t.id
	}
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	ls, err := b.cfg.Journal.Leases(look, LeaseFilter{IDs: []string{t.id}, Now: b.now()})
	if err == nil && len(ls) == 1 {
		l = ls[0] // how it ended, if it did, stays as it is
	}
	limit := endTime
	if err != nil {
		limit = soon
	}
	_, err = b.endLeaseIn(ctx, limit, l, by, "")
	return err
}

// endByID ends a credential by its lease id: what a third party made is no token of
// ours, and nothing here could recognise it.
func (b *Broker) endByID(ctx context.Context, id, sandbox, by string) error {
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	ls, err := b.cfg.Journal.Leases(look, LeaseFilter{IDs: []string{id}, Now: b.now()})
	if err != nil && sandbox == "" {
		return b.endUnknown(id, by, "", err)
	}
	if err != nil {
		return unavailable(err)
	}
	if len(ls) == 0 || sandbox != "" && ls[0].Sandbox != sandbox {
		return nil
	}
	_, err = b.endLease(ctx, ls[0], by, "")
	return err
}

// revoker says who asks: a sandbox by its id, or "" for a principal that may
// revoke anything.
func (b *Broker) revoker(ctx context.Context, r Revoker) (sandbox, by string, err error) {
	if r.Principal != nil {
		return "", r.Principal.ID, allow(*r.Principal, doubtful, RoleOperator)
	}
	if r.Subject == nil {
		return "", "", E(Unauthenticated, "Authenticate first.", nil)
	}
	// A client that authenticates by its assertion alone is enough to end what is
	// its own: RFC 7009 asks for no proof, and ordinary clients send none.
	if r.Possession.Key.JKT == "" && r.Subject.Assertion != "" {
		s, err := b.assertedSandbox(ctx, r.Subject.Assertion)
		if err == nil && r.Subject.ClientID != "" && r.Subject.ClientID != s.ID {
			err = E(Unauthenticated, "client_id differs from the sandbox that was authenticated.", nil)
		}
		return s.ID, s.ID, err
	}
	a, err := b.ask(ctx, toEnd, *r.Subject, r.Possession)
	if err != nil {
		return "", "", err
	}
	return a.sandbox.ID, a.sandbox.ID, nil
}

// withdrawOwn takes back a sandbox's own pending request.
func (b *Broker) withdrawOwn(ctx context.Context, id, sandbox, by string) error {
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{IDs: []string{id}})
	if err != nil {
		return unavailable(err)
	}
	if len(rs) == 0 || (sandbox != "" && rs[0].Sandbox != sandbox) {
		return nil
	}
	_, err = b.withdraw(ctx, rs[0], by, "client")
	return err
}

// withdraw settles a pending or approved request; a request in a final state is
// left alone.
func (b *Broker) withdraw(ctx context.Context, r Request, by, why string) (bool, error) {
	if r.State != RequestPending && r.State != RequestApproved {
		return false, nil
	}
	e := b.requestEntry(audit.RequestWithdrawn, by, r, map[string]string{"why": why})
	_, err := b.cfg.Desk.Settle(ctx, r.ID, r.State, RequestWithdrawn, b.now(), Record{Entries: []audit.Entry{e}})
	if errors.Is(err, ErrDone) {
		return false, nil
	}
	if err != nil {
		return false, unavailable(err)
	}
	b.m.requests.WithLabelValues("withdrawn").Inc()
	return true, nil
}

// requestEntry drafts a line about a request.
func (b *Broker) requestEntry(kind, actor string, r Request, data any) audit.Entry {
	e := b.taskEntry(kind, actor, r.TaskID, data)
	e.RequestID = r.ID
	return e
}
