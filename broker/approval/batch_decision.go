package approval

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/risk"
)

// MaxBatch is the largest number of requests in one batch decision.
const MaxBatch = 5

// Shown is one request of a batch approval, with the evidence snapshot of what the approver
// saw.
type Shown struct {
	ID       string
	Digest   string // of the facts the approver saw
	Snapshot string // JSON of what the approver was shown
}

// CheckBatch reports whether requests may be approved in one batch decision: two to five
// different requests of one task at one provider, none of high risk, all of them understood.
func CheckBatch(rs []broker.Request) error {
	switch {
	case len(rs) < 2 || len(rs) > MaxBatch:
		return broker.E(broker.Invalid, "Two to five requests are approved together.", nil)
	case !alike(rs):
		return broker.E(broker.Invalid, "Only requests of one task at one provider are approved together, each once.", nil)
	}
	for _, r := range rs {
		f, err := r.Sheet()
		if err != nil || !f.Understood() {
			return broker.E(broker.NotUnderstood, "ebb does not understand one of these requests: it can be denied, not approved. Decide each request by itself.", err)
		}
		if f.Level() == risk.High {
			return broker.E(broker.Invalid, "One of these requests is of high risk. Decide that one by itself.", nil)
		}
	}
	return nil
}

func alike(rs []broker.Request) bool {
	for i, r := range rs {
		if r.TaskID != rs[0].TaskID || r.Provider != rs[0].Provider || slices.ContainsFunc(rs[:i], func(o broker.Request) bool { return o.ID == r.ID }) {
			return false
		}
	}
	return true
}

// ApproveBatch approves several requests as they were asked: all of them or none. Each vote
// keeps its own evidence snapshot and the one proof, which covers the whole list in its order.
// Of the verdict only the proof is used. If the facts of one request have changed, that request
// is withdrawn and none is approved.
func (ve *Verdicts) ApproveBatch(ctx context.Context, who broker.Principal, items []Shown, proof broker.Verdict) ([]broker.Request, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleApprover); err != nil {
		return nil, err
	}
	if len(items) > MaxBatch {
		return nil, broker.E(broker.Invalid, "Two to five requests are approved together.", nil)
	}
	var rs []broker.Request
	var ids []string
	for _, it := range items {
		r, err := ve.approvals.requestByID(ctx, it.ID)
		if err != nil {
			return nil, err
		}
		if err := broker.MayDecide(who, r); err != nil {
			return nil, err
		}
		rs, ids = append(rs, r), append(ids, r.ID)
	}
	if err := CheckBatch(rs); err != nil {
		return nil, err
	}
	var ballots []broker.Ballot
	for i, r := range rs {
		vote, err := ve.checkVerdict(r, who, broker.Verdict{Approve: true, Digest: items[i].Digest, Snapshot: items[i].Snapshot, Proof: proof.Proof})
		if err != nil {
			return nil, err
		}
		ballots = append(ballots, ve.ballot(who, r, vote, proof, ids))
	}
	for _, r := range rs {
		if err := ve.stillTrue(ctx, r); err != nil {
			return nil, err
		}
		if err := ve.demand(r, proof); err != nil {
			return nil, err
		}
	}
	out, err := ve.approvalStore.VoteAll(ctx, ballots)
	if err != nil {
		return nil, voteError(err)
	}
	var after error
	for i := range out {
		out[i].Match = broker.MatchCode(out[i].ID)
		after = errors.Join(after, ve.afterVote(ctx, out[i]))
	}
	return out, after
}

// MaxMarks is the largest number of request summaries that Marks returns.
const MaxMarks = 1000

// marks caches the requests that waited at the last call. Of a request summary only the state
// changes, so that each is read once.
type marks struct {
	mu    sync.Mutex
	known map[string]broker.Mark
}

// Marks returns summaries of the waiting requests, newest first, at most MaxMarks. It checks no
// rights, so that one call serves all viewers: show a person only summaries for which For
// holds.
func (ap *Approvals) Marks(ctx context.Context) ([]broker.Mark, error) {
	held, err := ap.fatigue.ThrottledRoots(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := ap.approvalStore.NewestWaiting(ctx, ap.clock.Now(), held, MaxMarks)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	ap.marks.mu.Lock()
	defer ap.marks.mu.Unlock()
	var unknown []string
	for _, id := range ids {
		if _, is := ap.marks.known[id]; !is {
			unknown = append(unknown, id)
		}
	}
	now := map[string]broker.Mark{}
	if len(unknown) > 0 {
		read, err := ap.approvalStore.Marks(ctx, broker.RequestFilter{IDs: unknown, Page: broker.Page{Limit: len(unknown)}})
		if err != nil {
			return nil, broker.StoreError(err)
		}
		for _, m := range read {
			now[m.ID] = m
		}
	}
	var out []broker.Mark
	for _, id := range ids {
		m, is := now[id]
		if !is {
			m, is = ap.marks.known[id]
		}
		if is {
			now[id], out = m, append(out, m)
		}
	}
	ap.marks.known = now
	return out, nil
}

// Newest returns the name of the newest audit entry, "" without any. A page that follows a list
// learns from it that there may be more. Like Marks it serves all viewers.
func (ap *Approvals) Newest(ctx context.Context) (string, error) {
	s, err := ap.store.EntryList(ctx, broker.EntryQuery{Limit: 1, Look: 2})
	if err != nil {
		return "", broker.StoreError(err)
	}
	if len(s.Entries) == 0 {
		return "", nil
	}
	return s.Entries[0].Writer + "/" + strconv.FormatInt(s.Entries[0].Seq, 10), nil
}
