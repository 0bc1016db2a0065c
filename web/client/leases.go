package client

import (
	"context"
	"net/http"
	"net/url"

	"ebb/broker"
)

// Leases lists credentials on the record; zero members of f match everything.
// IDs, Now and all but the first of Parents are not sent.
func (o *Operator) Leases(ctx context.Context, f broker.LeaseFilter) (List[broker.Lease], error) {
	q := pageQuery(f.Page)
	set(q, "task_id", f.TaskID)
	if len(f.Parents) > 0 {
		set(q, "parent_id", f.Parents[0])
	}
	set(q, "owner", f.Owner)
	set(q, "sandbox", f.Sandbox)
	set(q, "provider", f.Provider)
	set(q, "state", string(f.State))
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	var out List[broker.Lease]
	return out, o.do(ctx, http.MethodGet, "/v1/leases", q, nil, &out)
}

// Lease reads one credential's record.
func (o *Operator) Lease(ctx context.Context, id string) (broker.Lease, error) {
	var out broker.Lease
	return out, o.do(ctx, http.MethodGet, leasePath(id, ""), nil, nil, &out)
}

// RevokeLease ends one credential at once.
func (o *Operator) RevokeLease(ctx context.Context, id, reason string) (broker.Lease, error) {
	var out broker.Lease
	return out, o.do(ctx, http.MethodPost, leasePath(id, "/revoke"), nil, reasonBody{reason}, &out)
}

// RetryLease makes the next attempt to take a credential back due now.
func (o *Operator) RetryLease(ctx context.Context, id string) (broker.Lease, error) {
	var out broker.Lease
	return out, o.do(ctx, http.MethodPost, leasePath(id, "/retry"), nil, nil, &out)
}

// ForceLease says that nothing is owed for a credential any more.
func (o *Operator) ForceLease(ctx context.Context, id, reason string) (broker.Lease, error) {
	var out broker.Lease
	return out, o.do(ctx, http.MethodPost, leasePath(id, "/force"), nil, reasonBody{reason}, &out)
}

// Providers lists the configured providers and what is owed there.
func (o *Operator) Providers(ctx context.Context) ([]broker.ProviderState, error) {
	var out struct {
		Items []broker.ProviderState `json:"items"`
	}
	err := o.do(ctx, http.MethodGet, "/v1/providers", nil, nil, &out)
	return out.Items, err
}

// CheckProvider tries a provider out; it waits as long as that takes.
func (o *Operator) CheckProvider(ctx context.Context, name string, spec broker.TrialSpec) (broker.Trial, error) {
	var out broker.Trial
	return out, o.doWait(ctx, http.MethodPost, "/v1/providers/"+url.PathEscape(name)+"/check", nil, spec, &out, broker.TrialTime)
}

func leasePath(id, verb string) string { return "/v1/leases/" + url.PathEscape(id) + verb }
