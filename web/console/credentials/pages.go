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
	list.TaskReader
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

// Pages serves the list of credentials and the pages that revoke one.
type Pages struct {
	Broker  Broker
	Shell   *shell.Shell
	Cursors *list.Cursors
	Entries *list.Entries
	Views   *list.Views
}

// Routes are the routes of credentials.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.Views.Page("/credentials", ps.credentials),
		ps.Shell.Page("/credentials.csv", ps.exportCredentials(list.FormatCSV)),
		ps.Shell.Page("/credentials.jsonl", ps.exportCredentials(list.FormatJSONL)),
		ps.Shell.Page("/credentials.proof.jsonl", ps.exportProof),
		ps.Shell.Watch("/credentials/tail", ps.tailCredentials),
		ps.Shell.Page("/credentials/:id", ps.credential),
		ps.Shell.Form("/credentials/:id/revoke", true, ps.revokeCredential),
		ps.Shell.Form("/credentials/:id/retry", false, ps.retryCredential),
		ps.Shell.Form("/credentials/:id/force", false, ps.forceCredential),
	}
}
