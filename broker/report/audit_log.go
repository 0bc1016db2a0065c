package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// checkedPoints is how many of the last checkpoints CheckRecord verifies.
const checkedPoints = 5

// Checked is the result of CheckRecord.
type Checked struct {
	Report audit.Report
	Fault  *audit.Fault // nil: the verified entries are consistent
	All    bool         // the whole audit log was verified
}

// ownKeys returns the published keys and those that this process knew at its start, including
// deleted ones.
func (l *Listings) ownKeys() (jose.KeySet, error) {
	published, err := jose.ParseJWKS(l.keys.JWKS(l.clock.Now()))
	if err != nil {
		return jose.KeySet{}, err
	}
	all := published.Keys()
	for _, k := range l.knownKeys.Keys() {
		if !slices.ContainsFunc(all, func(o jose.Key) bool { return o.KID == k.KID }) {
			all = append(all, k)
		}
	}
	return jose.NewKeySet(all...)
}

// CheckRecord verifies the last n (1..1000) entries of the audit log and the last checkpoints,
// as `ebb audit verify` does with an export. Since ebb itself makes this check, a person who
// does not trust this ebb must verify an export elsewhere.
func (l *Listings) CheckRecord(ctx context.Context, who broker.Principal, n int) (Checked, error) {
	points, err := l.Checkpoints(ctx, who) // before the entries, so that none is ahead of them
	if err != nil {
		return Checked{}, err
	}
	// Entries hidden from the principal are verified too, and not shown.
	s, err := l.store.EntryList(ctx, broker.EntryQuery{Limit: n, Look: n + 1})
	if err != nil {
		return Checked{}, broker.StoreError(err)
	}
	keys, err := l.ownKeys()
	if err != nil {
		return Checked{}, err
	}
	var lines bytes.Buffer
	known := map[string]bool{}
	out := json.NewEncoder(&lines)
	slices.Reverse(s.Entries)
	for _, e := range s.Entries {
		known[e.Writer] = true
		if err := out.Encode(e); err != nil {
			return Checked{}, err
		}
	}
	for _, p := range points[max(0, len(points)-checkedPoints):] {
		// Leave out a checkpoint of chains without an entry among those read.
		for writer := range p.Heads {
			if s.More && !known[writer] {
				p.JWS = ""
			}
		}
		if p.JWS == "" {
			continue
		}
		if err := out.Encode(map[string]audit.Checkpoint{"checkpoint": p}); err != nil {
			return Checked{}, err
		}
	}
	report, err := audit.Verify(&lines, keys)
	done := Checked{Report: report, All: !s.More}
	if fault, is := errors.AsType[*audit.Fault](err); is {
		done.Fault, err = fault, nil
	}
	return done, err
}

// Entries reads the audit log without the entries that are hidden from the principal.
func (l *Listings) Entries(ctx context.Context, who broker.Principal, f broker.EntryFilter) (iter.Seq2[audit.Entry, error], error) {
	entries, err := l.entriesOf(ctx, who, f)
	if err != nil {
		return nil, err
	}
	return l.shownTo(ctx, who, entries, nil), nil
}

func (l *Listings) entriesOf(ctx context.Context, who broker.Principal, f broker.EntryFilter) (iter.Seq2[audit.Entry, error], error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner); err != nil {
		return nil, err
	}
	if !who.Has(broker.RoleAuditor, broker.RoleOperator) {
		if _, err := l.tasks.Mine(ctx, who, broker.Certain, f.TaskID); err != nil {
			return nil, err
		}
	}
	return l.store.Entries(ctx, f), nil
}

// Checkpoints lists the signed checkpoints of the audit log.
func (l *Listings) Checkpoints(ctx context.Context, who broker.Principal) ([]audit.Checkpoint, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return nil, err
	}
	cs, err := l.store.Checkpoints(ctx)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return cs, nil
}

// hidden holds the requests whose votes a person may not see before they have voted.
type hidden map[string]bool

// hiddenFrom returns the requests that wait for the person's vote and have votes already. A
// person who decides requests and reads the audit log must not find the first vote there.
func (l *Listings) hiddenFrom(ctx context.Context, who broker.Principal) (hidden, error) {
	if !who.Has(broker.RoleApprover) {
		return nil, nil
	}
	var out hidden
	f := broker.RequestFilter{State: broker.RequestPending, Voted: true, Sight: &broker.Sight{Groups: who.Groups}, Page: broker.Page{Limit: kernel.RefillPage}}
	for {
		rs, err := l.approvalStore.Requests(ctx, f)
		if err != nil {
			return nil, broker.StoreError(err)
		}
		for _, r := range rs {
			if broker.MayDecide(who, r) != nil || kernel.HasAnswered(who, r) {
				continue
			}
			if out == nil {
				out = hidden{}
			}
			out[r.ID] = true
		}
		if len(rs) < f.Page.Limit {
			return out, nil
		}
		f.Page.After = rs[len(rs)-1].ID
	}
}

// has reports whether e is a vote on one of these requests, or a batch decision that names one.
func (h hidden) has(e audit.Entry) bool {
	if len(h) == 0 || e.Kind != audit.RequestVoted {
		return false
	}
	var data struct {
		Together []string `json:"together"`
	}
	return h[e.RequestID] || json.Unmarshal(e.Data, &data) != nil || slices.ContainsFunc(data.Together, func(id string) bool { return h[id] })
}

// shownTo leaves out the entries that are hidden from the principal. If gap is not nil, it stops at
// the first hidden entry with this error. It looks up the hidden requests after reading has begun:
// the entries are one snapshot of the audit log, so the look-up misses no vote in it.
func (l *Listings) shownTo(ctx context.Context, who broker.Principal, entries iter.Seq2[audit.Entry, error], gap error) iter.Seq2[audit.Entry, error] {
	if !who.Has(broker.RoleApprover) {
		return entries
	}
	return func(yield func(audit.Entry, error) bool) {
		var h hidden
		looked := false
		for e, err := range entries {
			if err == nil && e.Kind == audit.RequestVoted && !looked {
				h, err = l.hiddenFrom(ctx, who)
				looked = true
			}
			if err != nil {
				yield(audit.Entry{}, err)
				return
			}
			switch {
			case !h.has(e):
				if !yield(e, nil) {
					return
				}
			case gap != nil:
				yield(audit.Entry{}, gap)
				return
			}
		}
	}
}

// MayExport refuses an export to a person from whom a vote is hidden: the file would have a
// gap, which looks like a removed entry.
func (l *Listings) MayExport(ctx context.Context, who broker.Principal) error {
	h, err := l.hiddenFrom(ctx, who)
	if err != nil {
		return err
	}
	if len(h) > 0 {
		return kernel.ErrGap
	}
	return nil
}

// WholeEntries is Entries for an export. If an entry would be left out, because a vote was
// given since MayExport, reading stops with Conflict.
func (l *Listings) WholeEntries(ctx context.Context, who broker.Principal, f broker.EntryFilter) (iter.Seq2[audit.Entry, error], error) {
	entries, err := l.entriesOf(ctx, who, f)
	if err != nil {
		return nil, err
	}
	return l.shownTo(ctx, who, entries, kernel.ErrGap), nil
}
