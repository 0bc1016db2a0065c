package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// yesUnder returns an approval under a period.
func yesUnder(r broker.Request, g broker.BreakGlass, by string) broker.Vote {
	v := yes(r, by)
	v.BreakGlass, v.Groups = g.ID, nil
	return v
}

// voteAlone: one approval under an open period suffices. It replaces the same person's
// earlier vote, and is counted in the period. An approval under any other period is
// refused.
func voteAlone(t *storeTest) {
	g := t.begun("gil")
	r := t.asked(needs(3))
	_, err := t.vote(yes(r, "ann"))
	t.want("one of three", err, nil)
	early := yes(r, "gil")
	early.Seen, early.Proof = `{"seen":"early"}`, `{"key":"early"}`
	_, err = t.vote(early)
	t.want("two of three", err, nil)
	_, err = t.vote(yesUnder(r, g, "ann"))
	t.want("by somebody else", err, broker.ErrNotFound)
	for name, spoil := range map[string]func(*broker.Vote){
		"another period": func(v *broker.Vote) { v.BreakGlass = "brk_none" }, "before it": func(v *broker.Vote) { v.At = g.BegunAt.Add(-broker.ClockSkew - time.Millisecond) }, "after it": func(v *broker.Vote) { v.At = g.EndsAt },
	} {
		v := yesUnder(r, g, "gil")
		spoil(&v)
		if _, err := t.vote(v, about(r)...); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	over := t.begun("ann")
	_, err = t.ApprovalStore.ReviewBreakGlass(t.Context(), over.ID, "aud", "x", over.BegunAt, glassEntry(audit.BreakGlassReviewed))
	t.want("a review, though nobody has ended it", err, nil)
	_, err = t.vote(yesUnder(r, over, "ann"))
	t.want("after its review", err, broker.ErrNotFound)
	if got := t.request(r.ID); got.State != broker.RequestPending || len(got.Votes) != 2 || t.glass(g.ID).Used != 0 {
		t.Fatalf("%+v", got)
	}
	out, err := t.vote(yesUnder(r, g, "gil"), about(r)...)
	t.want("alone", err, nil)
	if out.State != broker.RequestApproved || len(out.Votes) != 2 || out.Votes[1].BreakGlass != g.ID {
		t.Errorf("%+v", out)
	}
	t.same("stored", t.request(r.ID), out)
	found, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{BreakGlass: g.ID})
	if err != nil || len(found) != 1 || found[0].ID != r.ID || t.glass(g.ID).Used != 1 {
		t.Errorf("%d found, %v, %d used", len(found), err, t.glass(g.ID).Used)
	}
	kept, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{IDs: []string{r.ID}, Seen: true})
	if err != nil || len(kept) != 1 || len(kept[0].Replaced) != 1 || len(kept[0].Votes) != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if was := kept[0].Replaced[0]; was.By != "gil" || was.Seen != early.Seen || was.Proof != early.Proof || was.BreakGlass != "" {
		t.Errorf("of the earlier answer is left %+v", was)
	}
	usedUp(t, g)
}

// usedUp: concurrent approvals under a period do not exceed its limit. One of two is used
// before.
func usedUp(t *storeTest, g broker.BreakGlass) {
	t.Helper()
	other := t.another()
	var wg sync.WaitGroup
	won := make(chan bool, 6)
	for i := range 6 {
		next := t.asked(needs(2))
		wg.Go(func() {
			if _, err := []broker.ApprovalStore{t.ApprovalStore, other.ApprovalStore}[i%2].Vote(context.WithoutCancel(t.Context()), yesUnder(next, g, "gil"), until); err == nil {
				won <- true
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || t.glass(g.ID).Used != 2 {
		t.Errorf("%d more were taken, %d are counted", len(won), t.glass(g.ID).Used)
	}
}
