package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// breakGlassRace: of concurrent calls at two replicas to begin, end or review a period,
// one wins.
func breakGlassRace(t *approvalTest) {
	other := t.another()
	stores := []broker.ApprovalStore{t.ApprovalStore, other.ApprovalStore}
	ctx := context.WithoutCancel(t.Context())
	one := func(what string, do func(i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		won := make(chan int, 8)
		for i := range 8 {
			wg.Go(func() {
				if do(i) == nil {
					won <- i
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%s: %d won", what, len(won))
		}
	}
	t.signedIn(newGlass("gil"))
	one("begin", func(i int) error {
		return stores[i%2].BeginBreakGlass(ctx, newGlass("gil"), Epoch.Add(-time.Hour), 3, Entry(audit.BreakGlassBegun, ""))
	})
	gs, err := t.ApprovalStore.BreakGlasses(ctx, broker.BreakGlassFilter{Person: "gil"})
	if err != nil || len(gs) != 1 {
		t.Fatal(len(gs), err)
	}
	one("end", func(i int) error {
		_, err := stores[i%2].EndBreakGlass(ctx, gs[0].ID, fmt.Sprint(i), Epoch.Add(time.Minute), glassEntry(audit.BreakGlassEnded))
		return err
	})
	one("review", func(i int) error {
		_, err := stores[i%2].ReviewBreakGlass(ctx, gs[0].ID, fmt.Sprint(i), "x", Epoch.Add(time.Hour), glassEntry(audit.BreakGlassReviewed))
		return err
	})
	names := []broker.BreakGlass{newGlass("ida"), newGlass("ida.berg")}
	for i := range names {
		names[i].Also = []string{"ida@example.org"}
		t.signedIn(names[i])
	}
	one("begin under two names", func(i int) error {
		g := names[i%2]
		g.ID, g.Proof = newID("brk_"), fmt.Sprintf(`{"key":"%d"}`, i)
		return stores[i%2].BeginBreakGlass(ctx, g, Epoch.Add(-time.Hour), 3, Entry(audit.BreakGlassBegun, ""))
	})
	if n := t.written("breakglass."); n != 4 {
		t.Errorf("%d entries", n)
	}
}

// breakGlassAgainstSignOut: a period that begins while its session ends does not stay
// open once the sign-out has looked for open periods.
func breakGlassAgainstSignOut(t *approvalTest) {
	other := t.another()
	ctx := context.WithoutCancel(t.Context())
	for i := range 6 {
		g := newGlass(fmt.Sprint("p", i))
		t.signedIn(g)
		var wg sync.WaitGroup
		var won atomic.Int32
		for range 4 {
			x := g
			x.ID = newID("brk_")
			wg.Go(func() {
				if t.ApprovalStore.BeginBreakGlass(ctx, x, Epoch.Add(-time.Hour), 3, Entry(audit.BreakGlassBegun, "")) == nil {
					won.Add(1)
				}
			})
		}
		wg.Go(func() {
			if _, err := other.Sessions.EndSessions(ctx, g.Person, g.Session); err != nil {
				t.Error(err)
			}
			open, err := other.ApprovalStore.BreakGlasses(ctx, broker.BreakGlassFilter{Person: g.Person, Unended: true})
			for _, o := range open {
				_, err = other.ApprovalStore.EndBreakGlass(ctx, o.ID, "ola", Epoch.Add(time.Minute), glassEntry(audit.BreakGlassEnded))
			}
			if err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		open, err := t.ApprovalStore.BreakGlasses(ctx, broker.BreakGlassFilter{Person: g.Person, Unended: true})
		if err != nil || len(open) != 0 || won.Load() > 1 {
			t.Errorf("%d began, %d are open, %v", won.Load(), len(open), err)
		}
	}
}
