package approval

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
)

// MaxBatch is the largest number of requests in one batch decision. A person compares them on
// one page, and their snapshots fit into one form (web.Limits.Body).
const MaxBatch = 20

// Shown is one request of a batch decision, with the evidence snapshot of the page that the
// approver saw.
type Shown struct {
	ID       string
	Digest   string    // of the facts the approver saw
	Snapshot string    // JSON of the facts and texts on the page
	ShownAt  time.Time // when the page was shown
}

// Alike returns a key that is equal for the requests that one batch decision can contain: those
// with the same provider, actions, resource patterns, policy rules and risk. Two resources have
// the same pattern when they differ at most in their last segment. It returns "" for a request
// that is decided by itself: one of high risk, one for a single content, or one that ebb does not
// understand.
func Alike(r broker.Request) string {
	f, err := r.Sheet()
	if err != nil || !f.Understood() || f.Level() == risk.High || f.Content != nil {
		return ""
	}
	var parts []string
	for _, s := range r.Scopes.Scopes() {
		resource := s.Resource()
		// A "*" or "**" that the request contains is part of the pattern. No resource ends in "/".
		if i := strings.LastIndexByte(resource, '/'); i >= 0 && !strings.HasPrefix(resource[i+1:], scopes.Any) {
			resource = resource[:i+1]
		}
		parts = append(parts, s.Provider()+":"+resource+":"+s.Action())
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %q %q %q", r.Provider, f.Level(), parts, f.Rules)
}

// CheckBatch reports whether requests may be decided in one batch decision: 1 to MaxBatch
// different requests that are alike.
func CheckBatch(rs []broker.Request) error {
	if len(rs) == 0 || len(rs) > MaxBatch {
		return broker.E(broker.Invalid, fmt.Sprintf("A group must have 1 to %d requests.", MaxBatch), nil)
	}
	key := Alike(rs[0])
	for i, r := range rs {
		switch {
		case slices.ContainsFunc(rs[:i], func(o broker.Request) bool { return o.ID == r.ID }):
			return broker.E(broker.Invalid, "A group must not contain the same request twice.", nil)
		case Alike(r) == "":
			return broker.E(broker.Invalid, "Request "+r.ID+" is of high risk or for one request only, or ebb does not understand it. Decide it on its page.", nil)
		case Alike(r) != key:
			return broker.E(broker.Invalid, "Only requests with the same provider, actions, resource pattern, policy rules and risk are decided together.", nil)
		}
	}
	return nil
}

// Outcome is the result of a batch decision for one request.
type Outcome struct {
	broker.Request
	Counts bool  // the answer was recorded
	Err    error // Counts: the error of a later step, or nil; otherwise why the answer was not recorded
}

// DecideBatch gives one answer to several requests: it approves each as requested, or denies
// each. It uses only the answer, the code, the note and the proof of v. Each vote stores its own
// evidence snapshot and the one proof, which covers the whole list in its order. DecideBatch
// returns an error for the whole list if CheckBatch refuses it, or if the person is not eligible
// for one of the requests. Otherwise it decides each request separately, as Decide does, and
// returns an outcome for each.
func (ve *Verdicts) DecideBatch(ctx context.Context, who broker.Principal, items []Shown, v broker.Verdict) ([]Outcome, error) {
	if len(items) > MaxBatch {
		return nil, CheckBatch(make([]broker.Request, len(items)))
	}
	if err := broker.Allow(who, certainty(v), broker.RoleApprover); err != nil {
		return nil, err
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
	if len(ids) == 1 {
		ids = nil
	}
	out := make([]Outcome, len(items))
	for i, it := range items {
		one := broker.Verdict{
			Approve: v.Approve, Digest: it.Digest, Code: v.Code, Note: v.Note, Snapshot: it.Snapshot, ShownAt: it.ShownAt,
			Proof: v.Proof, Choice: v.Choice, Passkey: v.Passkey, Present: v.Present, Presence: v.Presence,
		}
		r, err := ve.decide(ctx, who, it.ID, one, ids)
		counts := r.ID != ""
		if !counts {
			r = rs[i]
		}
		out[i] = Outcome{r, counts, err}
	}
	return out, nil
}

// MaxMarks is the largest number of request summaries that Marks returns.
const MaxMarks = 1000

// marks caches the requests that waited at the last call. A summary changes while its request waits
// only if several votes are needed; the others are read once.
type marks struct {
	mu    sync.Mutex
	known map[string]broker.Mark
}

// Marks returns summaries of the waiting requests, newest first, at most MaxMarks. It checks no
// rights, so that one call serves all viewers: show a person only summaries for which
// Mark.For returns true.
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
		if m, is := ap.marks.known[id]; !is || m.Several {
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
