package broker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes"
)

// issued is the data of an audit.LeaseIssued entry. Its members are sorted by
// name: what is canonical JSON already is not parsed and sorted for every mint.
type issued struct {
	Binding   provider.Binding `json:"cnf"`
	CouldStay bool             `json:"could_stay,omitempty"`       // see policy.Query
	Covered   string           `json:"covered_by_grant,omitempty"` // the request whose approval served again: nobody was asked
	Delivery  string           `json:"delivery"`
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

func issuedOf(l Lease, d decided) issued {
	var bound Seconds
	if l.Upstream != nil {
		bound = l.Upstream.Bound
	}
	var covered string
	if d.first == nil {
		covered = d.requestID
	}
	return issued{
		CouldStay: d.couldStay, Covered: covered, Delivery: l.Delivery, Class: l.Class, Bound: bound,
		Provider: l.Provider, Scopes: l.Scopes, Resource: l.Resource, ExpiresAt: l.ExpiresAt, ParentID: l.ParentID,
		Binding: l.Binding, Rules: l.Rule, Tool: l.Tool, Txn: l.Txn,
	}
}

// CoveredBy is the request whose approval served again for what an audit.LeaseIssued or
// audit.LeaseIntended entry tells of: nobody was asked for it. "" = that is not so.
func CoveredBy(e audit.Entry) string {
	var i struct {
		Covered string `json:"covered_by_grant"`
	}
	if e.Kind != audit.LeaseIssued && e.Kind != audit.LeaseIntended || json.Unmarshal(e.Data, &i) != nil || !validID(requestPrefix, i.Covered) {
		return ""
	}
	return i.Covered
}

// record makes the lease durable, and meanwhile signs its token and makes it live:
// each of the three takes about as long as all else in a mint. The token stays here
// until all are done (I1). From here on a client that hangs up changes nothing.
func (b *Broker) record(ctx context.Context, w want, d decided, l Lease) (provider.Credential, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	durable, err := b.begin(ctx, l, d, w.live.Caps.Uses, audit.LeaseIssued)
	if err != nil {
		return provider.Credential{}, err
	}
	cred, err := w.provider.Driver.Mint(ctx, b.grant(w, l))
	signed := err == nil
	if signed {
		err = b.enliven(ctx, l, w.live.Task)
	}
	if jerr := durable(); jerr != nil {
		if signed { // what is not on the record does not stay alive, though nobody has it
			b.endInLedger(context.WithoutCancel(ctx), l)
		}
		return provider.Credential{}, jerr
	}
	if err != nil {
		return provider.Credential{}, b.undelivered(ctx, l, err)
	}
	return cred, nil
}

// issue makes a lease durable, and with it that its request was redeemed.
func (b *Broker) issue(ctx context.Context, l Lease, d decided, uses int, kind string) error {
	durable, err := b.begin(ctx, l, d, uses, kind)
	if err == nil {
		err = durable()
	}
	return err
}

// begin is an issue whose outcome durable returns. That of a request is known at
// once: who redeems it second gets nothing, not even for a moment.
func (b *Broker) begin(ctx context.Context, l Lease, d decided, uses int, kind string) (durable func() error, err error) {
	rec := Record{IssueLease: &l, IssueLimit: uses, Entries: []audit.Entry{b.leaseEntry(kind, l.Sandbox, l, issuedOf(l, d))}}
	if d.first == nil {
		wait := b.cfg.Journal.Begin(ctx, rec)
		return func() error { return issueError(wait()) }, nil
	}
	_, err = b.cfg.Desk.Settle(ctx, d.first.ID, RequestApproved, RequestIssued, l.IssuedAt, rec)
	if errors.Is(err, ErrDone) {
		return nil, E(InvalidGrant, "The code was redeemed before, or the request was withdrawn.", err)
	}
	return func() error { return nil }, issueError(err)
}

// issueError says why a lease did not become durable.
func issueError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrTaskClosed):
		return completedMeanwhile(err)
	case errors.Is(err, ErrCap):
		return E(Denied, "The task has used up the credentials that it may have in all.", err)
	}
	return unavailable(err)
}

// enliven makes a lease live in the ledger, if its task may hold it.
func (b *Broker) enliven(ctx context.Context, l Lease, t Task) error {
	limits := LeaseLimits{Task: t.Caps.Leases, Owner: b.cfg.Limits.OwnerLive}
	err := b.cfg.Ledger.PutLease(ctx, LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, limits, false)
	if err == nil && b.tombs.has(l.TaskID, b.now()) {
		return ErrTaskClosed
	}
	if err != nil {
		return err
	}
	return b.still(ctx, t)
}
