package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"ebb/broker/audit"
)

// LeaseList is one page of the credentials, issued and revoked. A runner sees those of
// one of its tasks and names it.
func (b *Broker) LeaseList(ctx context.Context, who Principal, q LeaseQuery) (LeaseSlice, error) {
	if err := b.mayList(ctx, who, q.TaskID, RoleViewer); err != nil {
		return LeaseSlice{}, err
	}
	if q.Sandbox != "" && q.TaskID == "" && validID(sandboxPrefix, q.Sandbox) {
		q.TaskID = taskOf(q.Sandbox) // which has an index
	}
	q.Now = b.now()
	s, err := b.cfg.Journal.LeaseList(ctx, q)
	if err != nil {
		return LeaseSlice{}, unavailable(err)
	}
	return s, nil
}

// mayList: auditors and operators list everything, and so do the others where it is said;
// a runner what is of one of its tasks.
func (b *Broker) mayList(ctx context.Context, who Principal, taskID string, others ...Role) error {
	if err := allow(who, certain, append([]Role{RoleAuditor, RoleOperator, RoleRunner}, others...)...); err != nil {
		return err
	}
	if who.Has(append([]Role{RoleAuditor, RoleOperator}, others...)...) {
		return nil
	}
	if taskID == "" {
		return E(Forbidden, "You see what belongs to your own tasks. Name one of them.", nil)
	}
	_, err := b.mine(ctx, who, certain, taskID)
	return err
}

// Export is what somebody took out of the record as a file.
type Export struct {
	List   string            `json:"list"`          // credentials, audit, transcripts
	Format string            `json:"format"`        // csv, jsonl
	Filter map[string]string `json:"filter"`        // as it was asked for
	Rows   int               `json:"rows"`          // that were written
	Whole  bool              `json:"whole"`         // false: it was cut off
	Why    string            `json:"why,omitempty"` // it was, in a public sentence
}

// Ended notes how the writing of it ended: nil = whole.
func (x *Export) Ended(err error) {
	x.Whole = err == nil
	if e, ok := errors.AsType[*Error](err); ok {
		x.Why = e.Public
	}
}

// Exported puts an export on the record when it has ended, whole or not, however the
// connection that it went over ended.
func (b *Broker) Exported(ctx context.Context, who Principal, x Export) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{b.entry(audit.RecordExported, who.ID, x)}}); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "an export is not on the record", "actor", who.ID, "list", x.List, "rows", x.Rows, "error", err)
		return unavailable(err)
	}
	return nil
}

// EntryList is one page of the record. A runner sees what is about one of its tasks and
// names it.
func (b *Broker) EntryList(ctx context.Context, who Principal, q EntryQuery) (EntrySlice, error) {
	if err := b.mayList(ctx, who, q.TaskID); err != nil {
		return EntrySlice{}, err
	}
	s, err := b.cfg.Journal.EntryList(ctx, q)
	if err != nil {
		return EntrySlice{}, unavailable(err)
	}
	h, err := b.hiddenFrom(ctx, who) // after them: an answer that they have is not missed
	if err != nil {
		return EntrySlice{}, err
	}
	n := len(s.Entries)
	s.Entries = slices.DeleteFunc(s.Entries, h.has)
	s.LeftOut = n - len(s.Entries)
	return s, nil
}

// WholeEntryList is EntryList for a file: Conflict where a page has less than there is.
func (b *Broker) WholeEntryList(ctx context.Context, who Principal, q EntryQuery) (EntrySlice, error) {
	s, err := b.EntryList(ctx, who, q)
	if err == nil && s.LeftOut > 0 {
		err = errGap
	}
	return s, err
}

// Entry is one entry of the record.
func (b *Broker) Entry(ctx context.Context, who Principal, writer string, seq int64) (audit.Entry, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator, RoleRunner); err != nil {
		return audit.Entry{}, err
	}
	none := E(NotFound, "There is no such entry.", nil)
	if writer == "" || seq < 1 {
		return audit.Entry{}, none
	}
	s, err := b.cfg.Journal.EntryList(ctx, EntryQuery{Writer: writer, FirstSeq: seq, LastSeq: seq, Limit: 1, Look: 2})
	if err != nil {
		return audit.Entry{}, unavailable(err)
	}
	if len(s.Entries) == 0 {
		return audit.Entry{}, none
	}
	e := s.Entries[0]
	h, err := b.hiddenFrom(ctx, who)
	if err != nil {
		return audit.Entry{}, err
	}
	if h.has(e) {
		return audit.Entry{}, E(Forbidden, "This entry is an answer to a request that waits for yours. You see it when you have given yours, or the request has ended.", nil)
	}
	if !who.Has(RoleAuditor, RoleOperator) {
		if _, err := b.mine(ctx, who, certain, e.TaskID); err != nil {
			return audit.Entry{}, none
		}
	}
	return e, nil
}

// Heads is the last entry of every chain of the record.
func (b *Broker) Heads(ctx context.Context, who Principal) ([]audit.Entry, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator); err != nil {
		return nil, err
	}
	es, err := b.cfg.Journal.Heads(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	h, err := b.hiddenFrom(ctx, who)
	if err != nil {
		return nil, err
	}
	for i, e := range es {
		if h.has(e) { // where the chain ends is no answer
			es[i].Actor, es[i].Data = "", nil
		}
	}
	return es, nil
}
