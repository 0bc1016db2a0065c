package issuance

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// frame is the only place that computes the limits of a credential: its expiry is the earliest
// of all limits (I4), and every limit covers its scope (I5).
func (i *TokenIssuer) frame(w kernel.MintRequest, d kernel.Decision, now time.Time) (scopes.Set, time.Time, error) {
	exp := now.Add(min(w.TTL, d.TTL, i.MaxTTL(w.Provider)))
	for _, end := range []time.Time{w.Live.Deadline, w.NotAfter, d.Until} {
		if !end.IsZero() && end.Before(exp) {
			exp = end
		}
	}
	exp = exp.Truncate(time.Second) // exp of a JWT is whole seconds: round towards the earlier
	if exp.Sub(now) < time.Second {
		return scopes.Set{}, exp, broker.E(broker.Denied, "Less than one second is left until the task, the approval or the evidence ends.", nil)
	}
	covered := w.Scopes.Covers(d.Scopes) && w.Live.Ceiling.Covers(d.Scopes)
	if w.Parent != nil {
		covered = covered && w.Parent.Scopes.Covers(d.Scopes) && !exp.After(w.Parent.Exp)
	}
	if d.Scopes.Empty() || !covered {
		return scopes.Set{}, exp, broker.E(broker.Internal, "The broker refused to issue more than was asked for.", kernel.ErrWider)
	}
	return d.Scopes, exp, nil
}

// Mint records the lease, then returns the token (I1). For own tokens intent and lease are one
// write: a token that was signed but not recorded is never returned.
func (i *TokenIssuer) Mint(ctx context.Context, w kernel.MintRequest, d kernel.Decision) (broker.Token, error) {
	if w.Backchannel {
		return broker.Token{}, broker.E(broker.Invalid, "The policy allows this without an approval: use the token endpoint.", nil)
	}
	if w.Provider.Driver.Traits().ThirdParty {
		out, _, err := i.upstream.MintUpstream(ctx, w, d)
		return out, err
	}
	lease, err := i.draft(ctx, w, d)
	if err != nil {
		return broker.Token{}, err
	}
	cred, err := i.record(ctx, w, d, lease)
	if err != nil {
		return broker.Token{}, err
	}
	if len(w.Lineage) > 0 {
		// The parent was revoked while it was narrowed.
		if alive, err := i.callers.Alive(ctx, w.Live.ID, w.Lineage...); err != nil || !alive {
			return broker.Token{}, i.undelivered(ctx, lease, errors.Join(err, broker.ErrDone))
		}
	}
	out := broker.Token{
		Token: cred.Token, Type: cred.Type, Format: cred.Format, ExpiresIn: broker.Seconds(lease.ExpiresAt.Unix() - lease.IssuedAt.Unix()), Scopes: lease.Scopes,
		LeaseID: lease.ID, RequestID: d.RequestID,
	}
	out.Deliver(w.Provider, lease)
	if w.Details {
		out.Details = scopes.DetailsOf(lease.Scopes)
	}
	return out, nil
}

// draft returns the lease for a mint request: live, within every limit, and not stored yet. A
// request that does not fit is denied and recorded.
func (i *TokenIssuer) draft(ctx context.Context, w kernel.MintRequest, d kernel.Decision) (broker.Lease, error) {
	now := i.clock.Now()
	set, exp, err := i.frame(w, d, now)
	if err != nil {
		return broker.Lease{}, i.deny(ctx, w.Caller, w.Scopes, err)
	}
	l := broker.Lease{
		ID: broker.NewID(broker.LeasePrefix), TaskID: w.Live.ID, Sandbox: w.Sandbox.ID, Owner: w.Live.Owner, Provider: w.Name,
		Scopes: set, Resource: w.Provider.Resource, Binding: w.Bind, Class: w.Promise().Class, RequestID: d.RequestID,
		Rule: strings.Join(d.Rules, ","), Tool: w.Tool, Delivery: w.Delivery, Txn: w.Txn(), IssuedAt: now, ExpiresAt: exp, State: broker.LeaseLive,
		Content: broker.ContentSum(d.Content), MaxAmount: d.MaxAmount,
	}
	if n := len(w.Lineage); n > 0 {
		l.ParentID = w.Lineage[n-1]
	}
	return l, nil
}

// grant returns the lease as the driver sees it. The subject is the task's owner, on whose
// behalf the sandbox acts (RFC 8693 section 4.1).
func (i *TokenIssuer) grant(w kernel.MintRequest, l broker.Lease) provider.Grant {
	g := provider.Grant{
		LeaseID: l.ID, TaskID: l.TaskID, Sandbox: l.Sandbox, Subject: l.Owner, Scopes: l.Scopes, Resource: l.Resource,
		Binding: l.Binding, IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, Details: w.Details, Txn: l.Txn,
		Injected: l.Delivery == policy.DeliveryEgress,
		Actor:    i.tasks.actor(w.Live.Task),
		Claims:   map[string]string{i.callers.Claim("task_id"): l.TaskID},
	}
	if len(w.Lineage) > 0 {
		g.Claims[i.callers.Claim("parents")] = strings.Join(w.Lineage, " ")
	}
	if len(w.Live.Ancestors) > 0 {
		g.Claims[i.callers.Claim("ancestors")] = strings.Join(w.Live.Ancestors, " ")
	}
	if l.RequestID != "" {
		g.Claims[i.callers.Claim("request_id")] = l.RequestID
	}
	return g
}

// issued is the data of an audit.LeaseIssued entry. Its members are in alphabetical order: the
// JSON is then canonical and need not be parsed and sorted for every mint.
type issued struct {
	Binding   provider.Binding `json:"cnf"`
	Content   *policy.Content  `json:"content,omitempty"`          // see policy.Query
	CouldStay bool             `json:"could_stay,omitempty"`       // see policy.Query
	Covered   string           `json:"covered_by_grant,omitempty"` // the request whose approval was reused: no person was asked
	Delivery  string           `json:"delivery"`
	ExpiresAt time.Time        `json:"exp"`
	MaxAmount amount.Limits    `json:"max_amount,omitzero"`
	ParentID  string           `json:"parent_id,omitempty"`
	Provider  string           `json:"provider"`
	Resource  string           `json:"resource"`
	Class     provider.Class   `json:"revocability"`
	Bound     broker.Seconds   `json:"revocation_bound,omitempty"`
	Rules     string           `json:"rules"`
	Scopes    scopes.Set       `json:"scope"`
	Tool      string           `json:"tool"`
	Txn       string           `json:"txn"`
}

func issuedOf(l broker.Lease, d kernel.Decision) issued {
	var bound broker.Seconds
	if l.Upstream != nil {
		bound = l.Upstream.Bound
	}
	var covered string
	if d.First == nil {
		covered = d.RequestID
	}
	out := issued{
		MaxAmount: l.MaxAmount,
		CouldStay: d.CouldStay, Covered: covered, Delivery: l.Delivery, Class: l.Class, Bound: bound,
		Provider: l.Provider, Scopes: l.Scopes, Resource: l.Resource, ExpiresAt: l.ExpiresAt, ParentID: l.ParentID,
		Binding: l.Binding, Rules: l.Rule, Tool: l.Tool, Txn: l.Txn,
	}
	if d.Content != nil {
		does := provider.PolicyContent(d.Content)
		out.Content = &does
	}
	return out
}

// CoveredBy returns the request whose approval was reused for the lease of an audit.LeaseIssued
// or audit.LeaseIntended entry. "" = no approval was reused.
func CoveredBy(e audit.Entry) string {
	var i struct {
		Covered string `json:"covered_by_grant"`
	}
	if e.Kind != audit.LeaseIssued && e.Kind != audit.LeaseIntended || json.Unmarshal(e.Data, &i) != nil || !broker.ValidID(broker.RequestPrefix, i.Covered) {
		return ""
	}
	return i.Covered
}

// record makes the lease durable while it signs the token and adds the lease to the live store:
// each of the three takes about as long as the rest of a mint. The token is returned after all
// are done (I1). From here on a client that disconnects has no effect.
func (i *TokenIssuer) record(ctx context.Context, w kernel.MintRequest, d kernel.Decision, l broker.Lease) (provider.Credential, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	durable, err := i.begin(ctx, l, d, w.Live.Caps.Uses, audit.LeaseIssued)
	if err != nil {
		return provider.Credential{}, err
	}
	cred, err := w.Provider.Driver.Mint(ctx, i.grant(w, l))
	signed := err == nil
	if signed {
		err = i.enliven(ctx, l, w.Live.Task)
	}
	if jerr := durable(); jerr != nil {
		if signed { // the lease is not durable, so it must not stay live
			i.upstream.endInLiveStore(context.WithoutCancel(ctx), l)
		}
		return provider.Credential{}, jerr
	}
	if err != nil {
		return provider.Credential{}, i.undelivered(ctx, l, err)
	}
	return cred, nil
}

// issue makes a lease durable, together with the redemption of its request.
func (i *TokenIssuer) issue(ctx context.Context, l broker.Lease, d kernel.Decision, uses int, kind string) error {
	durable, err := i.begin(ctx, l, d, uses, kind)
	if err == nil {
		err = durable()
	}
	return err
}

// begin starts an issue; durable returns its outcome. The outcome of a redeemed request is
// known at once: of two clients that redeem it, the second gets no token.
func (i *TokenIssuer) begin(ctx context.Context, l broker.Lease, d kernel.Decision, uses int, kind string) (durable func() error, err error) {
	rec := broker.Record{IssueLease: &l, IssueLimit: uses, Entries: []audit.Entry{i.upstream.LeaseEntry(kind, l.Sandbox, l, issuedOf(l, d))}}
	if d.First == nil {
		wait := i.store.Begin(ctx, rec)
		return func() error { return issueError(wait()) }, nil
	}
	_, err = i.approvalStore.Settle(ctx, d.First.ID, broker.RequestApproved, broker.RequestIssued, l.IssuedAt, rec)
	if errors.Is(err, broker.ErrDone) {
		return nil, broker.E(broker.InvalidGrant, "The code was redeemed before, or the request was withdrawn.", err)
	}
	return func() error { return nil }, issueError(err)
}

// issueError translates why a lease did not become durable.
func issueError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, broker.ErrTaskClosed):
		return completedMeanwhile(err)
	case errors.Is(err, broker.ErrCap):
		return broker.E(broker.Denied, "The task has reached its limit of credentials in all (caps.uses). Open a new task.", err)
	}
	return broker.StoreError(err)
}

// enliven makes a lease live in the live store, if its task may hold it.
func (i *TokenIssuer) enliven(ctx context.Context, l broker.Lease, t broker.Task) error {
	limits := broker.LeaseLimits{Task: t.Caps.Leases, Owner: i.limits.OwnerLive}
	err := i.liveStore.PutLease(ctx, broker.LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, limits, false)
	if err == nil && i.revoked.Has(l.TaskID, i.clock.Now()) {
		return broker.ErrTaskClosed
	}
	if err != nil {
		return err
	}
	return i.tasks.still(ctx, t)
}
