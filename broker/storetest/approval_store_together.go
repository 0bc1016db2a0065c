package storetest

import (
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

func (t *storeTest) ballot(v broker.Vote) broker.Ballot {
	e := Entry(audit.RequestVoted, "")
	e.RequestID = v.RequestID
	approved := Entry(audit.RequestApproved, "")
	approved.RequestID = v.RequestID
	return broker.Ballot{Vote: v, Until: v.At.Add(time.Hour), Entries: []audit.Entry{e, approved}}
}

// voteAll: all ballots are stored, or none, whichever of them is refused.
func voteAll(t *storeTest) {
	for name, spoil := range map[string]func(b *broker.Ballot, other broker.Request){
		"stale":   func(b *broker.Ballot, _ broker.Request) { b.Digest = "other" },
		"unknown": func(b *broker.Ballot, _ broker.Request) { b.RequestID = "req_none" },
		"late":    func(b *broker.Ballot, r broker.Request) { b.At = r.ExpiresAt },
		"twice":   func(b *broker.Ballot, r broker.Request) { *b = t.ballot(yes(r, b.By)) },
	} {
		first, second, third := t.asked(nil), t.asked(nil), t.asked(nil)
		bs := []broker.Ballot{t.ballot(yes(first, "ann")), t.ballot(yes(second, "ann")), t.ballot(yes(third, "ann"))}
		spoil(&bs[2], first)
		if _, err := t.ApprovalStore.VoteAll(t.Context(), bs); err == nil {
			t.Errorf("%s: taken", name)
		}
		for _, r := range []broker.Request{first, second, third} {
			got := t.request(r.ID)
			if got.State != broker.RequestPending || len(got.Votes) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
			t.same(name+": entries", t.kinds(r.ID), []string{audit.RequestCreated})
		}
	}
	first, second := t.asked(nil), t.asked(nil)
	out, err := t.ApprovalStore.VoteAll(t.Context(), []broker.Ballot{t.ballot(yes(second, "ann")), t.ballot(yes(first, "ann"))})
	if err != nil || len(out) != 2 || out[0].ID != second.ID || out[1].ID != first.ID {
		t.Fatalf("%+v %v", out, err)
	}
	for _, r := range []broker.Request{first, second} {
		if got := t.request(r.ID); got.State != broker.RequestApproved || len(got.Votes) != 1 {
			t.Errorf("%+v", got)
		}
		t.same("entries", t.kinds(r.ID), []string{audit.RequestCreated, audit.RequestVoted, audit.RequestApproved})
	}
	if _, err := t.ApprovalStore.VoteAll(t.Context(), nil); err == nil {
		t.Error("no ballot is taken")
	}
}

// voteAllRace: of concurrent votes on overlapping lists at two replicas, one wins
// completely.
func voteAllRace(t *storeTest) {
	other := t.another()
	a, b, c := t.asked(nil), t.asked(nil), t.asked(nil)
	lists := [][]broker.Request{{a, b}, {b, c}, {c, a}, {b, a}}
	errs := race(16, func(i int) error {
		var bs []broker.Ballot
		for _, r := range lists[i%len(lists)] {
			bs = append(bs, t.ballot(yes(r, "ann")))
		}
		_, err := []broker.ApprovalStore{t.ApprovalStore, other.ApprovalStore}[i%2].VoteAll(t.Context(), bs)
		return err
	})
	t.same("winners", t.winners("vote", errs, broker.ErrDone), 1)
	approved := 0
	for _, r := range []broker.Request{a, b, c} {
		if t.request(r.ID).State == broker.RequestApproved {
			approved++
		}
	}
	t.same("approved", approved, 2)
}
