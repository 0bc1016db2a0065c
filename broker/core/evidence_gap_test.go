package core_test

import (
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestExportHasNoGap: a vote that is hidden from the exporting person, given after the export was
// permitted, ends the export instead of being left out.
//
//ebb:invariant I11 An export stops with an error at an entry that is hidden from the exporting person, instead of leaving it out
//ebb:invariant I11 A paged export fails with Conflict if the page contains an entry that is hidden from the exporting person
//ebb:invariant I11 An export of stored decision texts fails if a vote is hidden from the exporting person, instead of leaving it out
func TestExportHasNoGap(t *testing.T) {
	t.Parallel()
	x, _, r := seenBy(t)
	both := broker.Principal{ID: "zoe", Roles: []broker.Role{broker.RoleApprover, broker.RoleAuditor}, Groups: []string{"approvers"}}
	aud := x.Principals[brokertest.Auditor]
	read := func(who broker.Principal) (es []audit.Entry, last error) {
		seq, err := x.Broker.WholeEntries(t.Context(), who, broker.EntryFilter{RequestID: r.ID})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range seq {
			if last = err; err == nil {
				es = append(es, e)
			}
		}
		return es, last
	}
	all, err := read(aud)
	if err != nil || len(all) < 2 {
		t.Fatal(len(all), err)
	}
	if some, err := read(both); kind(err) != broker.Conflict || len(some) >= len(all) {
		t.Errorf("%d entries of %d, %v", len(some), len(all), err)
	}
	if _, err := x.Broker.WholeEntryList(t.Context(), aud, broker.EntryQuery{RequestID: r.ID, Limit: 50, Look: 51}); err != nil {
		t.Error(err)
	}
	if s, err := x.Broker.WholeEntryList(t.Context(), both, broker.EntryQuery{RequestID: r.ID, Limit: 50, Look: 51}); kind(err) != broker.Conflict {
		t.Errorf("a page of %d, %v", len(s.Entries), err)
	}
	if kept, err := x.Broker.Kept(t.Context(), aud, all); err != nil || len(kept) != 1 {
		t.Errorf("%d kept, %v", len(kept), err)
	}
	if kept, err := x.Broker.Kept(t.Context(), both, all); kind(err) != broker.Conflict {
		t.Errorf("%d kept, %v", len(kept), err)
	}
}

// TestKeptOfBothAnswers: a person who approves with others and then alone has two votes, and the
// stored texts of both are in the export, in pages of any size.
//
//ebb:invariant I11 An export includes the stored texts of replaced votes
func TestKeptOfBothAnswers(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	ann, aud := x.Principals[brokertest.Approver], x.Principals[brokertest.Auditor]
	r := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/**:write")
	yes := func(seen, glass string) {
		t.Helper()
		if _, err := x.Broker.Decide(t.Context(), ann, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, Snapshot: seen, BreakGlass: glass}); err != nil {
			t.Fatal(err)
		}
	}
	yes("first", "")
	g := begun(t, x, ann.ID)
	yes("second", g.ID)
	var known audit.Answers
	said := map[string]bool{}
	for e, err := range x.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.RequestVoted, RequestID: r.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		kept, err := x.Broker.Kept(t.Context(), aud, []audit.Entry{audit.Brief(e)})
		if err != nil || len(kept) != 1 {
			t.Fatalf("%d kept, %v", len(kept), err)
		}
		if err := known.Read(e); err != nil {
			t.Fatal(err)
		}
		if _, err := known.Judge(kept[0]); err != nil {
			t.Errorf("%q: %v", kept[0].Snapshot, err)
		}
		if _, err := known.Judge(kept[0]); err == nil {
			t.Errorf("%q counts twice", kept[0].Snapshot)
		}
		said[kept[0].Snapshot] = true
	}
	if !said["first"] || !said["second"] {
		t.Errorf("kept are %v", said)
	}
	now, vote, err := x.Broker.EvidenceSnapshot(t.Context(), aud, r.ID, ann.ID)
	if err != nil || vote.Snapshot != "second" || len(now.Replaced) != 1 || now.Replaced[0].Snapshot != "first" {
		t.Errorf("%q, %+v, %v", vote.Snapshot, now.Replaced, err)
	}
}
