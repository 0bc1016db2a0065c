package report

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// The maximum numbers of entries and of credentials in a proof. A proof holds the writer and number
// of each entry in memory, and needs up to three queries for each credential.
const (
	provedEntries = 100_000
	provedLeases  = 2_000
)

// Proof is an inclusion proof: its lines are the selected entries, the entries that link them to
// signed checkpoints, and those checkpoints. 'ebb audit verify' verifies it offline.
type Proof struct {
	Entries int // selected entries
	Lines   iter.Seq2[audit.ProofLine, error]
}

// ProveEntries returns the proof of the audit entries that match f. stated is the filter as the
// caller wrote it. A principal must be allowed to read the whole audit log.
func (l *Listings) ProveEntries(ctx context.Context, who broker.Principal, f broker.EntryFilter, stated map[string]string) (Proof, error) {
	statement := audit.Statement{List: "audit", Filter: stated}
	points, err := l.pointsToProve(ctx, who, statement)
	if err != nil {
		return Proof{}, err
	}
	var s audit.Selection
	if err := l.selectEntries(ctx, who, f, &s, func(audit.Entry) bool { return true }); err != nil {
		return Proof{}, err
	}
	return l.prove(ctx, who, &s, points, statement)
}

// ProveLeases returns the proof of the audit entries about the credentials that match q: about
// their issue and their end, about the approval that they came from, and about the end of their
// task.
func (l *Listings) ProveLeases(ctx context.Context, who broker.Principal, q broker.LeaseQuery, stated map[string]string) (Proof, error) {
	statement := audit.Statement{List: "credentials", Filter: stated}
	points, err := l.pointsToProve(ctx, who, statement)
	if err != nil {
		return Proof{}, err
	}
	var s audit.Selection
	seen, n := map[string]bool{}, 0
	for q.Limit, q.Look = 1000, 20_000; ; {
		page, err := l.LeaseList(ctx, who, q)
		if err != nil {
			return Proof{}, err
		}
		if n += len(page.Leases); n > provedLeases {
			return Proof{}, broker.E(broker.Invalid, fmt.Sprintf("The filter selects more than %d credentials. Narrow it, for example by a shorter period, and export several proofs.", provedLeases), nil)
		}
		for _, lease := range page.Leases {
			for _, f := range []broker.EntryFilter{{LeaseID: lease.ID}, {RequestID: lease.RequestID}, {TaskID: lease.TaskID, Kind: audit.TaskClosed}} {
				id := f.LeaseID + f.RequestID + f.TaskID
				if id == "" || seen[id] {
					continue
				}
				seen[id] = true
				about := func(e audit.Entry) bool { return f.LeaseID != "" || e.LeaseID == "" }
				if err := l.selectEntries(ctx, who, f, &s, about); err != nil {
					return Proof{}, err
				}
			}
		}
		if !page.More {
			return l.prove(ctx, who, &s, points, statement)
		}
		q.Place = page.Stop
	}
}

// pointsToProve signs a checkpoint of the newest entries, and returns all checkpoints, if the principal
// may export the whole audit log. If signing fails, it returns the existing ones. It refuses a statement
// that is too long for 'ebb audit verify'.
func (l *Listings) pointsToProve(ctx context.Context, who broker.Principal, stated audit.Statement) ([]audit.Checkpoint, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return nil, err
	}
	if err := l.MayExport(ctx, who); err != nil {
		return nil, err
	}
	if stated.Long() {
		return nil, broker.E(broker.Invalid, fmt.Sprintf("The filter is too long for a proof: the line that states the filter may have at most %d bytes. Use a shorter filter.", audit.MaxStatement), nil)
	}
	if err := l.guard.Checkpoint(ctx); err != nil { // the proof leaves out entries that no checkpoint covers, and states their number
		l.logger.WarnContext(ctx, "the checkpoint for a proof could not be signed; the proof leaves out entries since the last one", "error", err)
	}
	return l.Checkpoints(ctx, who)
}

// selectEntries adds the entries that match f, and that wanted selects.
func (l *Listings) selectEntries(ctx context.Context, who broker.Principal, f broker.EntryFilter, s *audit.Selection, wanted func(audit.Entry) bool) error {
	entries, err := l.WholeEntries(ctx, who, f)
	if err != nil {
		return err
	}
	for e, err := range entries {
		if err != nil {
			return asStoreError(err)
		}
		if !wanted(e) {
			continue
		}
		if s.Add(e); s.Len() > provedEntries {
			return broker.E(broker.Invalid, fmt.Sprintf("The filter selects more than %d entries. Narrow it, or export the period without a filter: that export needs no proof of its own.", provedEntries), nil)
		}
	}
	return nil
}

// asStoreError returns a broker.Error unchanged, and any other error as an error of the store.
func asStoreError(err error) error {
	if _, is := errors.AsType[*broker.Error](err); is {
		return err
	}
	return broker.StoreError(err)
}

func (l *Listings) prove(ctx context.Context, who broker.Principal, s *audit.Selection, points []audit.Checkpoint, stated audit.Statement) (Proof, error) {
	for e, err := range l.store.Entries(ctx, broker.EntryFilter{Kind: audit.KeyRevoked}) {
		if err == nil {
			err = s.Revoke(e)
		}
		if err != nil {
			return Proof{}, broker.StoreError(err)
		}
	}
	ranges, used, unsigned := s.Ranges(points)
	stated.Unsigned = unsigned
	lines := func(yield func(audit.ProofLine, error) bool) {
		if !yield(audit.ProofLine{Statement: &stated}, nil) {
			return
		}
		for _, r := range ranges {
			if !l.rangeOf(ctx, who, r, s, yield) {
				return
			}
		}
		for i := range used {
			if !yield(audit.ProofLine{Checkpoint: &used[i]}, nil) {
				return
			}
		}
	}
	return Proof{Entries: s.Len() - unsigned, Lines: lines}, nil
}

// rangeOf yields the entries of a part of a chain. It returns false when the caller has enough, or
// after an error.
func (l *Listings) rangeOf(ctx context.Context, who broker.Principal, r audit.Range, s *audit.Selection, yield func(audit.ProofLine, error) bool) bool {
	for first := r.First; first <= r.Last; {
		page, err := l.WholeEntryList(ctx, who, broker.EntryQuery{Writer: r.Writer, FirstSeq: first, LastSeq: min(r.Last, first+999), Oldest: true, Limit: 1000, Look: 1001})
		if err == nil && len(page.Entries) == 0 {
			err = broker.StoreError(fmt.Errorf("the database has no entry %d of writer %s", first, r.Writer))
		}
		if err != nil {
			yield(audit.ProofLine{}, err)
			return false
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if !yield(audit.ProofLine{Entry: e, Between: !s.Has(*e)}, nil) {
				return false
			}
		}
		first = page.Entries[len(page.Entries)-1].Seq + 1
	}
	return true
}
