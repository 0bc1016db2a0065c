package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// CredentialsService reads and revokes issued credentials. The API and its
// types call an issued credential a lease.
type CredentialsService struct{ *session }

// CredentialFilter selects credentials. Zero members match every credential.
type CredentialFilter struct {
	TaskID   string
	ParentID string // narrowed from this credential
	Owner    string
	Sandbox  string
	Provider string
	State    wire.LeaseState
	From, To time.Time // issued in [From, To)
	Page     Page
}

func (f CredentialFilter) set(q url.Values) {
	set(q, "task_id", f.TaskID)
	set(q, "owner", f.Owner)
	set(q, "sandbox", f.Sandbox)
	set(q, "provider", f.Provider)
	set(q, "state", string(f.State))
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
}

// Proof copies the audit entries about the credentials that match f, with the proof that they
// are in the audit log, unaltered: JSON lines that "ebb audit verify" verifies. resource selects
// credentials whose scope allows an action on it or on a resource below it; "" selects all.
// ParentID and Page of f are ignored.
func (s *CredentialsService) Proof(ctx context.Context, f CredentialFilter, resource string, w io.Writer) error {
	q := url.Values{}
	f.set(q)
	set(q, "resource", resource)
	return s.export(ctx, "/v1/leases/proof", q, w, nil)
}

// List lists credentials.
func (s *CredentialsService) List(ctx context.Context, f CredentialFilter) (wire.List[wire.Lease], error) {
	q := pageQuery(f.Page)
	f.set(q)
	set(q, "parent_id", f.ParentID)
	var out wire.List[wire.Lease]
	return out, s.do(ctx, http.MethodGet, "/v1/leases", q, nil, &out)
}

// Get returns one credential.
func (s *CredentialsService) Get(ctx context.Context, id string) (wire.Lease, error) {
	var out wire.Lease
	return out, s.do(ctx, http.MethodGet, leasePath(id, ""), nil, nil, &out)
}

// Revoke revokes one credential at once.
func (s *CredentialsService) Revoke(ctx context.Context, id, reason string) (wire.Lease, error) {
	var out wire.Lease
	return out, s.do(ctx, http.MethodPost, leasePath(id, "/revoke"), nil, wire.ReasonBody{Reason: reason}, &out)
}

// Retry makes the next revocation attempt at the provider due now.
func (s *CredentialsService) Retry(ctx context.Context, id string) (wire.Lease, error) {
	var out wire.Lease
	return out, s.do(ctx, http.MethodPost, leasePath(id, "/retry"), nil, nil, &out)
}

// Force closes the pending revocation of a credential on the operator's
// word.
func (s *CredentialsService) Force(ctx context.Context, id, reason string) (wire.Lease, error) {
	var out wire.Lease
	return out, s.do(ctx, http.MethodPost, leasePath(id, "/force"), nil, wire.ReasonBody{Reason: reason}, &out)
}

// Usage returns the summary of issued and used credentials since from, at most
// limit rows. Zero values mean the server's defaults.
func (s *CredentialsService) Usage(ctx context.Context, from time.Time, by wire.UsageBy, limit int) (wire.Usage, error) {
	q := url.Values{}
	setTime(q, "from", from)
	set(q, "by", string(by))
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out wire.Usage
	return out, s.do(ctx, http.MethodGet, "/v1/usage", q, nil, &out)
}

// maxWait is ebb's limit for the wait of a revocation feed call.
const maxWait = 25 * time.Second

// Revocations returns the events after cursor ("" = from the oldest kept). It
// waits up to wait, at most 25 s, for the first event.
func (s *CredentialsService) Revocations(ctx context.Context, cursor string, wait time.Duration) (wire.Feed, error) {
	q := url.Values{}
	wait = min(wait, maxWait)
	set(q, "cursor", cursor)
	if wait > 0 {
		q.Set("wait_seconds", strconv.FormatInt(int64(wait/time.Second), 10))
	}
	var out wire.Feed
	return out, s.doWait(ctx, http.MethodGet, "/v1/revocations", q, nil, &out, wait)
}

func leasePath(id, verb string) string { return "/v1/leases/" + url.PathEscape(id) + verb }
