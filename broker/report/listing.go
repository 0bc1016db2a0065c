package report

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/scopes"
)

// LeaseList returns one page of the credentials, in every state. A runner must name one of its
// tasks.
func (l *Listings) LeaseList(ctx context.Context, who broker.Principal, q broker.LeaseQuery) (broker.LeaseSlice, error) {
	if err := l.mayList(ctx, who, q.TaskID, broker.RoleViewer); err != nil {
		return broker.LeaseSlice{}, err
	}
	if q.Sandbox != "" && q.TaskID == "" && broker.ValidID(broker.SandboxPrefix, q.Sandbox) {
		q.TaskID = broker.TaskOf(q.Sandbox) // the task has an index
	}
	if _, err := scopes.New("any", q.Resource, scopes.Any); q.Resource != "" && err != nil {
		return broker.LeaseSlice{}, broker.E(broker.Invalid, "The resource is invalid. Write the resource part of a scope, without provider and action, such as acme/web or acme/**.", err)
	}
	q.Now = l.clock.Now()
	s, err := l.store.LeaseList(ctx, q)
	if err != nil {
		return broker.LeaseSlice{}, broker.StoreError(err)
	}
	return s, nil
}

// mayList checks the right to list: auditors, operators and the roles of others may list
// everything, a runner only one of its own tasks.
func (l *Listings) mayList(ctx context.Context, who broker.Principal, taskID string, others ...broker.Role) error {
	if err := broker.Allow(who, broker.Certain, append([]broker.Role{broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner}, others...)...); err != nil {
		return err
	}
	if who.Has(append([]broker.Role{broker.RoleAuditor, broker.RoleOperator}, others...)...) {
		return nil
	}
	if taskID == "" {
		return broker.E(broker.Forbidden, "As a runner you can list only your own tasks. Name one of them with task_id.", nil)
	}
	_, err := l.tasks.Mine(ctx, who, broker.Certain, taskID)
	return err
}

// Export describes an exported file.
type Export struct {
	List   string            `json:"list"`          // credentials, audit, transcripts
	Format string            `json:"format"`        // csv, jsonl, proof.jsonl
	Filter map[string]string `json:"filter"`        // the filter of the request
	Rows   int               `json:"rows"`          // rows that were written
	Whole  bool              `json:"whole"`         // false: the export was interrupted
	Why    string            `json:"why,omitempty"` // why it was interrupted, as a public sentence
}

// Ended stores the result of the export: nil = complete.
func (x *Export) Ended(err error) {
	x.Whole = err == nil
	if e, ok := errors.AsType[*broker.Error](err); ok {
		x.Why = e.Public
	}
}

// Exported records an export after it has ended, complete or not, even when its connection broke.
func (l *Listings) Exported(ctx context.Context, who broker.Principal, x Export) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := l.store.Append(ctx, broker.Record{Entries: []audit.Entry{l.log.NewEntry(audit.RecordExported, who.ID, x)}}); err != nil {
		l.logger.ErrorContext(ctx, "an export could not be recorded", "actor", who.ID, "list", x.List, "rows", x.Rows, "error", err)
		return broker.StoreError(err)
	}
	return nil
}

// EntryList returns one page of the audit log. A runner must name one of its tasks.
func (l *Listings) EntryList(ctx context.Context, who broker.Principal, q broker.EntryQuery) (broker.EntrySlice, error) {
	if err := l.mayList(ctx, who, q.TaskID); err != nil {
		return broker.EntrySlice{}, err
	}
	s, err := l.store.EntryList(ctx, q)
	if err != nil {
		return broker.EntrySlice{}, broker.StoreError(err)
	}
	h, err := l.hiddenFrom(ctx, who) // after the entries, so that no vote among them is missed
	if err != nil {
		return broker.EntrySlice{}, err
	}
	n := len(s.Entries)
	s.Entries = slices.DeleteFunc(s.Entries, h.has)
	s.LeftOut = n - len(s.Entries)
	return s, nil
}

// WholeEntryList is EntryList for an export: Conflict when an entry is hidden from the principal.
func (l *Listings) WholeEntryList(ctx context.Context, who broker.Principal, q broker.EntryQuery) (broker.EntrySlice, error) {
	s, err := l.EntryList(ctx, who, q)
	if err == nil && s.LeftOut > 0 {
		err = kernel.ErrGap
	}
	return s, err
}

// Entry returns one entry of the audit log.
func (l *Listings) Entry(ctx context.Context, who broker.Principal, writer string, seq int64) (audit.Entry, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner); err != nil {
		return audit.Entry{}, err
	}
	none := broker.E(broker.NotFound, "There is no such entry.", nil)
	if writer == "" || seq < 1 {
		return audit.Entry{}, none
	}
	s, err := l.store.EntryList(ctx, broker.EntryQuery{Writer: writer, FirstSeq: seq, LastSeq: seq, Limit: 1, Look: 2})
	if err != nil {
		return audit.Entry{}, broker.StoreError(err)
	}
	if len(s.Entries) == 0 {
		return audit.Entry{}, none
	}
	e := s.Entries[0]
	h, err := l.hiddenFrom(ctx, who)
	if err != nil {
		return audit.Entry{}, err
	}
	if h.has(e) {
		return audit.Entry{}, broker.E(broker.Forbidden, "This entry is a vote on a request that waits for your vote. It is shown after you have voted, or after the request has ended.", nil)
	}
	if !who.Has(broker.RoleAuditor, broker.RoleOperator) {
		if _, err := l.tasks.Mine(ctx, who, broker.Certain, e.TaskID); err != nil {
			return audit.Entry{}, none
		}
	}
	return e, nil
}

// Heads returns the last entry of every chain of the audit log.
func (l *Listings) Heads(ctx context.Context, who broker.Principal) ([]audit.Entry, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return nil, err
	}
	es, err := l.store.Heads(ctx)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	h, err := l.hiddenFrom(ctx, who)
	if err != nil {
		return nil, err
	}
	for i, e := range es {
		if h.has(e) { // the position is shown, the vote is not
			es[i].Actor, es[i].Data = "", nil
		}
	}
	return es, nil
}
