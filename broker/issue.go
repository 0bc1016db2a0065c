package broker

import (
	"context"
	"errors"
	"strings"
	"time"

	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// decided is what policy, or policy and a person, said yes to.
type decided struct {
	scopes    scopes.Set
	ttl       time.Duration
	rules     []string
	until     time.Time // end of the grant, zero = none
	couldStay bool      // see couldStay, as policy alone was told
	requestID string
	promise   provider.Revocability // how what is minted can be taken back at least; see keeps
	first     *Request              // set when this token settles the request
}

// frame is the one place that says what may be issued: the expiry is the
// earliest of all frames (I4) and the scope is covered by all of them (I5).
func (b *Broker) frame(w want, d decided, now time.Time) (scopes.Set, time.Time, error) {
	exp := now.Add(min(w.ttl, d.ttl, b.maxTTL(w.provider)))
	for _, end := range []time.Time{w.live.Deadline, w.notAfter, d.until} {
		if !end.IsZero() && end.Before(exp) {
			exp = end
		}
	}
	exp = exp.Truncate(time.Second) // exp of a JWT is whole seconds: round towards the earlier
	if exp.Sub(now) < time.Second {
		return scopes.Set{}, exp, E(Denied, "Less than a second is left of the task, the grant or the evidence.", nil)
	}
	covered := w.scopes.Covers(d.scopes) && w.live.Ceiling.Covers(d.scopes)
	if w.parent != nil {
		covered = covered && w.parent.scopes.Covers(d.scopes) && !exp.After(w.parent.exp)
	}
	if d.scopes.Empty() || !covered {
		return scopes.Set{}, exp, E(Internal, "The broker refused to issue more than was asked for.", errWider)
	}
	return d.scopes, exp, nil
}

// mint records, then answers (I1). Own tokens have no third party, so intent and
// lease are one write: a token that was signed but not recorded is known to nobody.
func (b *Broker) mint(ctx context.Context, w want, d decided) (Token, error) {
	if w.provider.Driver.Traits().ThirdParty {
		out, _, err := b.mintUpstream(ctx, w, d)
		return out, err
	}
	lease, err := b.draft(ctx, w, d)
	if err != nil {
		return Token{}, err
	}
	cred, err := b.record(ctx, w, d, lease)
	if err != nil {
		return Token{}, err
	}
	if len(w.lineage) > 0 {
		// Revoked while it was narrowed: nothing is born of it any more.
		if alive, err := b.alive(ctx, w.live.ID, w.lineage...); err != nil || !alive {
			return Token{}, b.undelivered(ctx, lease, errors.Join(err, ErrDone))
		}
	}
	out := Token{
		Token: cred.Token, Type: cred.Type, Format: cred.Format, ExpiresIn: Seconds(lease.ExpiresAt.Unix() - lease.IssuedAt.Unix()), Scopes: lease.Scopes,
		LeaseID: lease.ID, RequestID: d.requestID,
	}
	out.deliver(w.provider, lease)
	if w.details {
		out.Details = scopes.DetailsOf(lease.Scopes)
	}
	return out, nil
}

// draft is the lease that a want becomes: live, within every frame, and nowhere
// yet. What does not fit is a denial on the record.
func (b *Broker) draft(ctx context.Context, w want, d decided) (Lease, error) {
	now := b.now()
	set, exp, err := b.frame(w, d, now)
	if err != nil {
		return Lease{}, b.deny(ctx, w.asker, w.scopes, err)
	}
	l := Lease{
		ID: newID(leasePrefix), TaskID: w.live.ID, Sandbox: w.sandbox.ID, Owner: w.live.Owner, Provider: w.name,
		Scopes: set, Resource: w.provider.Resource, Binding: w.bind, Class: w.promise().Class, RequestID: d.requestID,
		Rule: strings.Join(d.rules, ","), Tool: w.tool, Delivery: w.delivery, Txn: w.txn(), IssuedAt: now, ExpiresAt: exp, State: LeaseLive,
	}
	if n := len(w.lineage); n > 0 {
		l.ParentID = w.lineage[n-1]
	}
	return l, nil
}

// txn joins request, approval, token, use and revocation; narrowing keeps it.
func (w want) txn() string {
	if w.parent != nil && w.parent.txn != "" {
		return w.parent.txn
	}
	return newID("txn_")
}

// grant is the lease as the driver sees it. The subject is the task's owner, on
// whose behalf the sandbox acts (RFC 8693 section 4.1).
func (b *Broker) grant(w want, l Lease) provider.Grant {
	g := provider.Grant{
		LeaseID: l.ID, TaskID: l.TaskID, Sandbox: l.Sandbox, Subject: l.Owner, Scopes: l.Scopes, Resource: l.Resource,
		Binding: l.Binding, IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, Details: w.details, Txn: l.Txn,
		Injected: l.Delivery == policy.DeliveryEgress,
		Actor:    b.actor(w.live.Task),
		Claims:   map[string]string{b.claim("task_id"): l.TaskID},
	}
	if len(w.lineage) > 0 {
		g.Claims[b.claim("parents")] = strings.Join(w.lineage, " ")
	}
	if len(w.live.Ancestors) > 0 {
		g.Claims[b.claim("ancestors")] = strings.Join(w.live.Ancestors, " ")
	}
	if l.RequestID != "" {
		g.Claims[b.claim("request_id")] = l.RequestID
	}
	return g
}
