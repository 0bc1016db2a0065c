package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// sightUnderGlass: a person who approves alone sees pending requests, and requests
// approved under their period, in addition.
func sightUnderGlass(t *approvalTest) {
	g := t.begun("gil")
	waits, over, done := t.asked(needs(2)), t.asked(nil), t.asked(needs(2))
	if _, err := t.vote(no(over, "ann")); err != nil {
		t.Fatal(err)
	}
	if _, err := t.vote(yesUnder(done, g, "gil")); err != nil {
		t.Fatal(err)
	}
	for glass, want := range map[string][]string{g.ID: {waits.ID, done.ID}, "brk_other": {waits.ID}, "": {}} {
		f := broker.RequestFilter{Sight: &broker.Sight{Runner: "nobody", Groups: []string{"none"}, Glass: glass}}
		t.same("sight under "+glass, t.requestIDs(f), want)
		f.IDs = []string{over.ID}
		t.same("what is over", t.requestIDs(f), []string{})
	}
}

// voteAloneAgainstEnd: an approval and the end of its period at the same time: either the
// approval is valid and counted in the period, or it is refused.
func voteAloneAgainstEnd(t *approvalTest) {
	other := t.another()
	for i := range 6 {
		g := t.begun(fmt.Sprint("p", i))
		r := t.asked(needs(2))
		var wg sync.WaitGroup
		var voted, ended error
		wg.Go(func() {
			_, voted = t.ApprovalStore.Vote(context.WithoutCancel(t.Context()), yesUnder(r, g, g.Person), until)
		})
		wg.Go(func() {
			_, ended = other.ApprovalStore.EndBreakGlass(context.WithoutCancel(t.Context()), g.ID, "ola", Epoch.Add(2*time.Minute), glassEntry(audit.BreakGlassEnded))
		})
		wg.Wait()
		used, state := t.glass(g.ID).Used, t.request(r.ID).State
		if said := t.saidUsed(g.ID); said != used {
			t.Errorf("the record says that it was used %d times, and it was %d times", said, used)
		}
		if ended != nil || (voted == nil) != (used == 1) || (voted == nil) != (state == broker.RequestApproved) {
			t.Errorf("voted %v, ended %v, %d used, %s", voted, ended, used, state)
		}
	}
}

// saidUsed returns the number of uses of a period in the entry of its end.
func (t *approvalTest) saidUsed(id string) int {
	t.Helper()
	for _, e := range t.entries(broker.EntryFilter{Kind: audit.BreakGlassEnded}) {
		var data struct {
			ID   string `json:"break_glass"`
			Used int    `json:"used"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		if data.ID == id {
			return data.Used
		}
	}
	t.Fatalf("the end of %s is not on the record", id)
	return 0
}

// yesUnder returns an approval under a period.
func yesUnder(r broker.Request, g broker.BreakGlass, by string) broker.Vote {
	v := yes(r, by)
	v.BreakGlass, v.Groups = g.ID, nil
	return v
}

// voteAlone: one approval under an open period suffices. It replaces the same person's
// earlier vote, and is counted in the period. An approval under any other period is
// refused.
func voteAlone(t *approvalTest) {
	g := t.begun("gil")
	r := t.asked(needs(3))
	_, err := t.vote(yes(r, "ann"))
	t.want("one of three", err, nil)
	early := yes(r, "gil")
	early.Snapshot, early.Proof = `{"seen":"early"}`, `{"key":"early"}`
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
	kept, err := t.ApprovalStore.Requests(t.Context(), broker.RequestFilter{IDs: []string{r.ID}, Snapshots: true})
	if err != nil || len(kept) != 1 || len(kept[0].Replaced) != 1 || len(kept[0].Votes) != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if was := kept[0].Replaced[0]; was.By != "gil" || was.Snapshot != early.Snapshot || was.Proof != early.Proof || was.BreakGlass != "" {
		t.Errorf("of the earlier answer is left %+v", was)
	}
	usedUp(t, g)
}

// usedUp: concurrent approvals under a period do not exceed its limit. One of two is used
// before.
func usedUp(t *approvalTest, g broker.BreakGlass) {
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
