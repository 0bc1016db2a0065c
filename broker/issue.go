package broker

import (
	"context"
	"errors"
	"strings"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes"
)

// decided is what policy, or policy and a person, said yes to.
type decided struct {
	scopes    scopes.Set
	ttl       time.Duration
	rules     []string
	deliver   string
	until     time.Time // end of the grant, zero = none
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
// lease are one write: a token that was signed but not recorded is known to nobody
// and dead.
func (b *Broker) mint(ctx context.Context, w want, d decided) (Token, error) {
	if err := deliverable(w.provider, d.deliver); err != nil {
		return Token{}, b.deny(ctx, w.asker, w.scopes, nil, err)
	}
	if b.upstreams[w.name] != nil {
		out, _, err := b.mintUpstream(ctx, w, d)
		return out, err
	}
	lease, err := b.draft(ctx, w, d)
	if err != nil {
		return Token{}, err
	}
	cred, err := w.provider.Driver.Mint(ctx, b.grant(w, lease))
	if err != nil {
		return Token{}, unavailable(err)
	}
	if err := b.record(ctx, lease, d, w.live.Task); err != nil {
		return Token{}, err
	}
	if len(w.lineage) > 0 {
		// Revoked while it was narrowed: nothing is born of it any more.
		if alive, err := b.alive(ctx, w.live.ID, w.lineage...); err != nil || !alive {
			return Token{}, b.undelivered(ctx, lease, errors.Join(err, ErrDone))
		}
	}
	out := Token{
		Token: cred.Token, Type: cred.Type, ExpiresIn: Seconds(lease.ExpiresAt.Unix() - lease.IssuedAt.Unix()), Scopes: lease.Scopes,
		LeaseID: lease.ID, RequestID: d.requestID,
	}
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
		return Lease{}, b.deny(ctx, w.asker, w.scopes, nil, err)
	}
	l := Lease{
		ID: newID(leasePrefix), TaskID: w.live.ID, Sandbox: w.sandbox.ID, Owner: w.live.Owner, Provider: w.name,
		Scopes: set, Resource: w.provider.Resource, Binding: w.bind, Class: w.promise().Class, RequestID: d.requestID,
		Rule: strings.Join(d.rules, ","), Tool: w.tool, Txn: w.txn(), IssuedAt: now, ExpiresAt: exp, State: LeaseLive,
	}
	if n := len(w.lineage); n > 0 {
		l.ParentID = w.lineage[n-1]
	}
	return l, nil
}

// issued is the data of an audit.LeaseIssued entry. Its members are sorted by
// name: what is canonical JSON already is not parsed and sorted for every mint.
type issued struct {
	Binding   provider.Binding `json:"cnf"`
	ExpiresAt time.Time        `json:"exp"`
	ParentID  string           `json:"parent_id,omitempty"`
	Provider  string           `json:"provider"`
	Resource  string           `json:"resource"`
	Class     provider.Class   `json:"revocability"`
	Bound     Seconds          `json:"revocation_bound,omitempty"`
	Rules     string           `json:"rules"`
	Scopes    scopes.Set       `json:"scope"`
	Tool      string           `json:"tool"`
	Txn       string           `json:"txn"`
}

func issuedOf(l Lease) issued {
	var bound Seconds
	if l.Upstream != nil {
		bound = l.Upstream.Bound
	}
	return issued{
		Class: l.Class, Bound: bound,
		Provider: l.Provider, Scopes: l.Scopes, Resource: l.Resource, ExpiresAt: l.ExpiresAt, ParentID: l.ParentID,
		Binding: l.Binding, Rules: l.Rule, Tool: l.Tool, Txn: l.Txn,
	}
}

// record makes the lease durable and then live. From here on a client that hangs
// up changes nothing.
func (b *Broker) record(ctx context.Context, l Lease, d decided, t Task) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := b.issue(ctx, l, d, t.Caps.Uses, audit.LeaseIssued); err != nil {
		return err
	}
	if err := b.enliven(ctx, l, t); err != nil {
		return b.undelivered(ctx, l, err)
	}
	return nil
}

// issue makes a lease durable, and with it that its request was redeemed.
func (b *Broker) issue(ctx context.Context, l Lease, d decided, uses int, kind string) error {
	rec := Record{IssueLease: &l, IssueLimit: uses, Entries: []audit.Entry{b.leaseEntry(kind, l.Sandbox, l, issuedOf(l))}}
	var err error
	if d.first != nil {
		_, err = b.cfg.Desk.Settle(ctx, d.first.ID, RequestApproved, RequestIssued, l.IssuedAt, rec)
		if errors.Is(err, ErrDone) {
			return E(InvalidGrant, "The code was redeemed before, or the request was withdrawn.", err)
		}
	} else {
		err = b.cfg.Journal.Append(ctx, rec)
	}
	switch {
	case errors.Is(err, ErrTaskClosed):
		return completedMeanwhile(err)
	case errors.Is(err, ErrCap):
		return E(Denied, "The task has used up the credentials that it may have in all.", err)
	case err != nil:
		return unavailable(err)
	}
	return nil
}

// enliven makes a lease live in the ledger, if its task may hold it.
func (b *Broker) enliven(ctx context.Context, l Lease, t Task) error {
	err := b.cfg.Ledger.PutLease(ctx, LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, t.Caps.Leases, false)
	if err == nil && b.tombs.has(l.TaskID, b.now()) {
		return ErrTaskClosed
	}
	if err != nil {
		return err
	}
	return b.still(ctx, t)
}

// undelivered ends a lease whose token nobody got.
func (b *Broker) undelivered(ctx context.Context, l Lease, cause error) error {
	// Whatever made it late must not make its end late too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	e := b.leaseEntry(audit.LeaseUndelivered, self, l, map[string]string{"why": errorKind(cause)})
	if err := b.cfg.Journal.Append(ctx, Record{
		EndLease: &LeaseEnd{ID: l.ID, State: LeaseRevoked, By: self, At: b.now()}, Entries: []audit.Entry{e},
	}); err != nil && !errors.Is(err, ErrDone) {
		b.cfg.Logger.ErrorContext(ctx, "an undelivered lease stays on the record as live until it expires", "lease_id", l.ID, "error", err)
	}
	b.endInLedger(ctx, l)
	return undeliveredError(cause)
}

// undeliveredError says why nothing was issued.
func undeliveredError(cause error) error {
	e, known := errors.AsType[*Error](cause)
	switch {
	case known:
		return e
	case cause == nil, errors.Is(cause, ErrTaskClosed), errors.Is(cause, ErrNotFound):
		return completedMeanwhile(cause)
	case errors.Is(cause, ErrDone):
		return E(InvalidGrant, "The token to be narrowed was revoked meanwhile. Nothing was issued.", cause)
	case errors.Is(cause, ErrTaskPaused):
		return E(Denied, "The task is paused. Nothing mints until its runner resumes it.", cause)
	case errors.Is(cause, ErrCap):
		return &Error{Kind: TooMany, Public: "The task holds as many credentials as it may. Revoke one or wait for one to expire.", Cause: cause, RetryAfter: 10 * time.Second}
	default:
		return unavailable(cause)
	}
}

func completedMeanwhile(cause error) *Error {
	return E(InvalidGrant, "The task was completed meanwhile. Nothing was issued.", cause)
}

// errorKind names a cause for the record, which must not hold internals.
func errorKind(err error) string {
	for _, s := range []error{ErrTaskClosed, ErrTaskPaused, ErrCap, ErrNotFound, ErrDone, provider.ErrRefused, errWider, errWeaker, ErrLost} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	if _, busy := errors.AsType[*provider.BusyError](err); busy {
		return "the provider limits the rate"
	}
	return "a store or the provider is unavailable"
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
		Actor:  b.actor(w.live.Task),
		Claims: map[string]string{b.claim("task_id"): l.TaskID},
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
