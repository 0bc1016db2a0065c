package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// LeaseFilter selects credentials. Zero members match every credential.
type LeaseFilter struct {
	TaskID   string
	ParentID string // narrowed from this credential
	Owner    string
	Sandbox  string
	Provider string
	State    wire.LeaseState
	From, To time.Time // issued in [From, To)
	Page     Page
}

// Leases lists credentials.
func (o *Operator) Leases(ctx context.Context, f LeaseFilter) (wire.List[wire.Lease], error) {
	q := pageQuery(f.Page)
	set(q, "task_id", f.TaskID)
	set(q, "parent_id", f.ParentID)
	set(q, "owner", f.Owner)
	set(q, "sandbox", f.Sandbox)
	set(q, "provider", f.Provider)
	set(q, "state", string(f.State))
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	var out wire.List[wire.Lease]
	return out, o.do(ctx, http.MethodGet, "/v1/leases", q, nil, &out)
}

// Lease returns one credential.
func (o *Operator) Lease(ctx context.Context, id string) (wire.Lease, error) {
	var out wire.Lease
	return out, o.do(ctx, http.MethodGet, leasePath(id, ""), nil, nil, &out)
}

// RevokeLease revokes one credential at once.
func (o *Operator) RevokeLease(ctx context.Context, id, reason string) (wire.Lease, error) {
	var out wire.Lease
	return out, o.do(ctx, http.MethodPost, leasePath(id, "/revoke"), nil, wire.ReasonBody{Reason: reason}, &out)
}

// RetryLease makes the next revocation attempt at the provider due now.
func (o *Operator) RetryLease(ctx context.Context, id string) (wire.Lease, error) {
	var out wire.Lease
	return out, o.do(ctx, http.MethodPost, leasePath(id, "/retry"), nil, nil, &out)
}

// ForceLease closes the pending revocation of a credential on the operator's
// word.
func (o *Operator) ForceLease(ctx context.Context, id, reason string) (wire.Lease, error) {
	var out wire.Lease
	return out, o.do(ctx, http.MethodPost, leasePath(id, "/force"), nil, wire.ReasonBody{Reason: reason}, &out)
}

// Providers lists the configured providers with their pending revocations.
func (o *Operator) Providers(ctx context.Context) ([]wire.Provider, error) {
	var out wire.List[wire.Provider]
	err := o.do(ctx, http.MethodGet, "/v1/providers", nil, nil, &out)
	return out.Items, err
}

// selfTestTime is longer than ebb's limit for a provider self-test: set-up, mint,
// probe and the completion of a task.
const selfTestTime = 3 * time.Minute

// CheckProvider runs a provider self-test and waits until it is done.
func (o *Operator) CheckProvider(ctx context.Context, name string, spec wire.SelfTestSpec) (wire.SelfTest, error) {
	var out wire.SelfTest
	return out, o.doWait(ctx, http.MethodPost, "/v1/providers/"+url.PathEscape(name)+"/check", nil, spec, &out, selfTestTime)
}

func leasePath(id, verb string) string { return "/v1/leases/" + url.PathEscape(id) + verb }
