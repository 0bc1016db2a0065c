package credentials

import (
	"context"
	"iter"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Reader
	Origin
	list.Exporter
	ProveLeases(ctx context.Context, who broker.Principal, q broker.LeaseQuery, stated map[string]string) (report.Proof, error)
	RevokeLease(ctx context.Context, who broker.Principal, id string, reason string) (broker.Lease, error)
	RetryLease(ctx context.Context, who broker.Principal, id string) (broker.Lease, error)
	ForceLease(ctx context.Context, who broker.Principal, id string, reason string) (broker.Lease, error)
}

// Origin reads the requests that credentials came from.
type Origin interface {
	Requests(ctx context.Context, who broker.Principal, f broker.RequestFilter) ([]broker.Request, error)
}

// Reader reads credentials with their tasks and audit entries.
type Reader interface {
	Lease(ctx context.Context, who broker.Principal, id string) (broker.Lease, error)
	Leases(ctx context.Context, who broker.Principal, f broker.LeaseFilter) ([]broker.Lease, error)
	LeaseList(ctx context.Context, who broker.Principal, q broker.LeaseQuery) (broker.LeaseSlice, error)
	LeaseTally(ctx context.Context, who broker.Principal) (broker.LeaseTally, error)
	Task(ctx context.Context, who broker.Principal, id string) (broker.Task, error)
	Entries(ctx context.Context, who broker.Principal, f broker.EntryFilter) (iter.Seq2[audit.Entry, error], error)
}

// Config holds the dependencies of New.
type Config struct {
	Broker  Broker
	Shell   *shell.Shell
	Cursors *list.Cursors
	Entries *list.Entries
	Views   *list.Views
}

// Pages serves the list of credentials and the pages that revoke one.
type Pages struct {
	b       Broker
	shell   *shell.Shell
	cursors *list.Cursors
	entries *list.Entries
	views   *list.Views
}

// New returns the pages of this area.
func New(c Config) *Pages {
	return &Pages{b: c.Broker, shell: c.Shell, cursors: c.Cursors, entries: c.Entries, views: c.Views}
}

// Routes are the routes of credentials.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.views.Page("/credentials", ps.credentials),
		ps.shell.Page("/credentials.csv", ps.exportCredentials(list.FormatCSV)),
		ps.shell.Page("/credentials.jsonl", ps.exportCredentials(list.FormatJSONL)),
		ps.shell.Page("/credentials.proof.jsonl", ps.exportProof),
		ps.shell.Watch("/credentials/tail", ps.tailCredentials),
		ps.shell.Page("/credentials/:id", ps.credential),
		ps.shell.Form("/credentials/:id/revoke", true, ps.revokeCredential),
		ps.shell.Form("/credentials/:id/retry", false, ps.retryCredential),
		ps.shell.Form("/credentials/:id/force", false, ps.forceCredential),
	}
}
