package storetest

import (
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// breakGlassPages: filters and pages, newest first.
func breakGlassPages(t *storeTest) {
	var ids []string
	for i := range 5 {
		g := t.begun(fmt.Sprint("p", i))
		ids = append([]string{g.ID}, ids...)
		if i%2 == 0 {
			t.want("end", t.endGlass(g.ID, Epoch.Add(time.Minute)), nil)
		}
		if i == 0 {
			_, err := t.ApprovalStore.ReviewBreakGlass(t.Context(), g.ID, "aud", "x", Epoch.Add(time.Hour), glassEntry(audit.BreakGlassReviewed))
			t.want("review", err, nil)
		}
	}
	for name, c := range map[string]struct {
		f    broker.BreakGlassFilter
		want []string
	}{
		"all": {broker.BreakGlassFilter{}, ids}, "two": {broker.BreakGlassFilter{Limit: 2}, ids[:2]}, "after": {broker.BreakGlassFilter{After: ids[1], Limit: 2}, ids[2:4]},
		"not ended": {broker.BreakGlassFilter{Unended: true}, []string{ids[1], ids[3]}}, "not reviewed": {broker.BreakGlassFilter{Unreviewed: true}, ids[:4]}, "of one": {broker.BreakGlassFilter{Person: "p2"}, ids[2:3]},
		"none": {broker.BreakGlassFilter{ID: "brk_none"}, nil}, "of everybody, of whom it is reviewed": {broker.BreakGlassFilter{ReviewedOf: []string{"x", "P0"}}, ids},
		"a page without what is reviewed": {broker.BreakGlassFilter{ReviewedOf: []string{"p4"}, After: ids[1], Limit: 3}, ids[2:4]},
	} {
		got, err := t.ApprovalStore.BreakGlasses(t.Context(), c.f)
		var have []string
		for _, g := range got {
			have = append(have, g.ID)
		}
		if err != nil || fmt.Sprint(have) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v, %v", name, have, c.want, err)
		}
	}
	for _, n := range []int{-1, 1001} {
		if _, err := t.ApprovalStore.BreakGlasses(t.Context(), broker.BreakGlassFilter{Limit: n}); err == nil {
			t.Errorf("a page of %d", n)
		}
	}
}

// sightUnderGlass: a person who approves alone sees pending requests, and requests
// approved under their period, in addition.
func sightUnderGlass(t *storeTest) {
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
