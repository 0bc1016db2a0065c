package auditlog

import (
	"context"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Reader
	Export
	MayReadTranscripts(who broker.Principal) error
}

// Reader reads single entries, the chains and their checkpoints.
type Reader interface {
	Entry(ctx context.Context, who broker.Principal, writer string, seq int64) (audit.Entry, error)
	Heads(ctx context.Context, who broker.Principal) ([]audit.Entry, error)
	Checkpoints(ctx context.Context, who broker.Principal) ([]audit.Checkpoint, error)
	CheckRecord(ctx context.Context, who broker.Principal, n int) (report.Checked, error)
}

// Export reads the whole audit log with its evidence.
type Export interface {
	list.Exporter
	MayExport(ctx context.Context, who broker.Principal) error
	WholeEntryList(ctx context.Context, who broker.Principal, q broker.EntryQuery) (broker.EntrySlice, error)
	Kept(ctx context.Context, who broker.Principal, entries []audit.Entry) ([]audit.Kept, error)
	ProveEntries(ctx context.Context, who broker.Principal, f broker.EntryFilter, stated map[string]string) (report.Proof, error)
}

// Pages serves the audit log, its chains and its exports.
type Pages struct {
	Broker  Broker
	Shell   *shell.Shell
	Cursors *list.Cursors
	Entries *list.Entries
	Views   *list.Views
}

// Routes are the routes of the audit log.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.Views.Page("/audit", ps.audit),
		ps.Shell.Page("/audit.csv", ps.exportAudit(list.FormatCSV)),
		ps.Shell.Page("/audit.jsonl", ps.exportAudit(list.FormatJSONL)),
		ps.Shell.Page("/audit.proof.jsonl", ps.exportProof),
		ps.Shell.Page("/audit/chains", ps.chains(false)),
		ps.Shell.Page("/audit/check", ps.chains(true)),
		ps.Shell.Page("/audit/:writer/:seq", ps.entry),
	}
}
