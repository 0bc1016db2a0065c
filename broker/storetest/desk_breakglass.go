package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
)

// Glass is a period with every member filled that a new one has.
func Glass(person string) broker.BreakGlass {
	return broker.BreakGlass{
		BreakGlassPlan: broker.BreakGlassPlan{
			ID: ID("brk_"), Person: person, Incident: "INC-7", Reason: "nobody 'else'; -- is \"awake\" \U0001f30a", TTL: 1800, Most: 2, AskedAt: Epoch.Add(-time.Minute),
		},
		Also: []string{person + "@example.org"}, Proof: `{"key":"x"}`, ACR: "phr", BegunAt: Epoch, EndsAt: Epoch.Add(30 * time.Minute),
	}
}

func (t *journalTest) begin(g broker.BreakGlass) error {
	return t.Desk.BeginBreakGlass(context.WithoutCancel(t.Context()), g, g.BegunAt.Add(-24*time.Hour), 3, Entry(audit.BreakGlassBegun, ""))
}

func (t *journalTest) begun(person string) broker.BreakGlass {
	t.Helper()
	g := Glass(person)
	t.want("begin", t.begin(g), nil)
	return g
}

func (t *journalTest) glass(id string) broker.BreakGlass {
	t.Helper()
	gs, err := t.Desk.BreakGlasses(t.Context(), broker.BreakGlassFilter{ID: id})
	if err != nil || len(gs) != 1 {
		t.Fatalf("break-glass %s: got %d, %v", id, len(gs), err)
	}
	return gs[0]
}

func (t *journalTest) endGlass(id string, at time.Time) error {
	_, err := t.Desk.EndBreakGlass(context.WithoutCancel(t.Context()), id, "ola", at, Entry(audit.BreakGlassEnded, ""))
	return err
}

// breakGlass: one begins, ends and is reviewed, each once and on the record.
func breakGlass(t *journalTest) {
	g := t.begun("gil")
	t.same("begun", t.glass(g.ID), g)
	g.EndedAt, g.EndedBy = Epoch.Add(5*time.Minute), "ola"
	t.want("end", t.endGlass(g.ID, g.EndedAt), nil)
	t.same("ended", t.glass(g.ID), g)
	t.want("end again", t.endGlass(g.ID, g.EndedAt), broker.ErrDone)
	t.want("end none", t.endGlass("brk_none", g.EndedAt), broker.ErrDone)
	g.ReviewedAt, g.ReviewedBy, g.Note = Epoch.Add(time.Hour), "aud", "fine \U0001f30a"
	review := func() error {
		_, err := t.Desk.ReviewBreakGlass(t.Context(), g.ID, "aud", g.Note, g.ReviewedAt, Entry(audit.BreakGlassReviewed, ""))
		return err
	}
	t.want("review", review(), nil)
	t.same("reviewed", t.glass(g.ID), g)
	t.want("review again", review(), broker.ErrDone)
	for kind, want := range map[string]int{audit.BreakGlassBegun: 1, audit.BreakGlassEnded: 1, audit.BreakGlassReviewed: 1} {
		if n := t.written(kind); n != want {
			t.Errorf("%d entries %s, want %d", n, kind, want)
		}
	}
}

// breakGlassRefuses: a person has one open, of an id and a sign-in there is one ever, and
// so many in a time.
func breakGlassRefuses(t *journalTest) {
	for name, spoil := range map[string]func(*broker.BreakGlass){
		"no id": func(g *broker.BreakGlass) { g.ID = "" }, "nobody": func(g *broker.BreakGlass) { g.Person = "" }, "no time": func(g *broker.BreakGlass) { g.BegunAt = time.Time{} },
		"no end": func(g *broker.BreakGlass) { g.EndsAt = g.BegunAt }, "no UTF-8": func(g *broker.BreakGlass) { g.Reason = "\xff" }, "NUL": func(g *broker.BreakGlass) { g.ACR = "\x00" },
	} {
		g := Glass("eve")
		if spoil(&g); t.begin(g) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	first := Glass("gil")
	first.Proof, first.AuthAt = "", Epoch.Add(-time.Second)
	t.want("begin", t.begin(first), nil)
	t.want("a second one", t.begin(Glass("gil")), broker.ErrExists)
	later := Glass("gil")
	later.BegunAt, later.EndsAt = first.EndsAt, first.EndsAt.Add(time.Minute)
	t.want("over, and not ended", t.begin(later), broker.ErrExists)
	t.want("end", t.endGlass(first.ID, first.EndsAt), nil)
	again := later
	again.ID = first.ID
	t.want("the same id", t.begin(again), broker.ErrExists)
	again = later
	again.Proof, again.AuthAt = "", first.AuthAt
	t.want("the same sign-in", t.begin(again), broker.ErrExists)
	t.want("a new one", t.begin(later), nil)
	t.want("end", t.endGlass(later.ID, later.EndsAt), nil)
	third := Glass("gil")
	third.BegunAt, third.EndsAt = later.EndsAt, later.EndsAt.Add(time.Minute)
	t.want("a third", t.begin(third), nil)
	t.want("end", t.endGlass(third.ID, third.EndsAt), nil)
	fourth := Glass("gil")
	fourth.BegunAt, fourth.EndsAt = third.EndsAt, third.EndsAt.Add(time.Minute)
	t.want("a fourth", t.begin(fourth), broker.ErrCap)
	fourth.BegunAt, fourth.EndsAt = Epoch.Add(24*time.Hour), Epoch.Add(25*time.Hour)
	t.want("a day later", t.begin(fourth), nil)
	t.want("somebody else", t.begin(Glass("uma")), nil)
	if n := t.written(audit.BreakGlassBegun); n != 5 {
		t.Errorf("%d entries", n)
	}
}

// breakGlassRace: of many that begin, end or review at two replicas, one wins.
func breakGlassRace(t *journalTest) {
	other := t.another()
	desks := []broker.Desk{t.Desk, other.Desk}
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
	one("begin", func(i int) error {
		return desks[i%2].BeginBreakGlass(ctx, Glass("gil"), Epoch.Add(-time.Hour), 3, Entry(audit.BreakGlassBegun, ""))
	})
	gs, err := t.Desk.BreakGlasses(ctx, broker.BreakGlassFilter{Person: "gil"})
	if err != nil || len(gs) != 1 {
		t.Fatal(len(gs), err)
	}
	one("end", func(i int) error {
		_, err := desks[i%2].EndBreakGlass(ctx, gs[0].ID, fmt.Sprint(i), Epoch.Add(time.Minute), Entry(audit.BreakGlassEnded, ""))
		return err
	})
	one("review", func(i int) error {
		_, err := desks[i%2].ReviewBreakGlass(ctx, gs[0].ID, fmt.Sprint(i), "x", Epoch.Add(time.Hour), Entry(audit.BreakGlassReviewed, ""))
		return err
	})
	if n := t.written("breakglass."); n != 3 {
		t.Errorf("%d entries", n)
	}
}

// breakGlassPages: filters and pages, the newest first.
func breakGlassPages(t *journalTest) {
	var ids []string
	for i := range 5 {
		g := t.begun(fmt.Sprint("p", i))
		ids = append([]string{g.ID}, ids...)
		if i%2 == 0 {
			t.want("end", t.endGlass(g.ID, Epoch.Add(time.Minute)), nil)
		}
		if i == 0 {
			_, err := t.Desk.ReviewBreakGlass(t.Context(), g.ID, "aud", "x", Epoch.Add(time.Hour), Entry(audit.BreakGlassReviewed, ""))
			t.want("review", err, nil)
		}
	}
	for name, c := range map[string]struct {
		f    broker.BreakGlassFilter
		want []string
	}{
		"all": {broker.BreakGlassFilter{}, ids}, "two": {broker.BreakGlassFilter{Limit: 2}, ids[:2]}, "after": {broker.BreakGlassFilter{After: ids[1], Limit: 2}, ids[2:4]},
		"not ended": {broker.BreakGlassFilter{Unended: true}, []string{ids[1], ids[3]}}, "not reviewed": {broker.BreakGlassFilter{Unreviewed: true}, ids[:4]}, "of one": {broker.BreakGlassFilter{Person: "p2"}, ids[2:3]},
		"none": {broker.BreakGlassFilter{ID: "brk_none"}, nil},
	} {
		got, err := t.Desk.BreakGlasses(t.Context(), c.f)
		var have []string
		for _, g := range got {
			have = append(have, g.ID)
		}
		if err != nil || fmt.Sprint(have) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v, %v", name, have, c.want, err)
		}
	}
	for _, n := range []int{-1, 1001} {
		if _, err := t.Desk.BreakGlasses(t.Context(), broker.BreakGlassFilter{Limit: n}); err == nil {
			t.Errorf("a page of %d", n)
		}
	}
}

// alone is a yes under a period.
func alone(r broker.Request, g broker.BreakGlass, by string) broker.Vote {
	v := yes(r, by)
	v.BreakGlass, v.Groups = g.ID, nil
	return v
}

// voteAlone: one yes under a period that is open counts for all, takes the place of the
// same person's earlier one, and is counted with it; nothing else does.
func voteAlone(t *journalTest) {
	g := t.begun("gil")
	r := t.asked(needs(3))
	_, err := t.vote(yes(r, "ann"))
	t.want("one of three", err, nil)
	_, err = t.vote(yes(r, "gil"))
	t.want("two of three", err, nil)
	_, err = t.vote(alone(r, g, "ann"))
	t.want("by somebody else", err, broker.ErrNotFound)
	for name, spoil := range map[string]func(*broker.Vote){
		"another period": func(v *broker.Vote) { v.BreakGlass = "brk_none" }, "before it": func(v *broker.Vote) { v.At = g.BegunAt.Add(-time.Millisecond) }, "after it": func(v *broker.Vote) { v.At = g.EndsAt },
	} {
		v := alone(r, g, "gil")
		spoil(&v)
		if _, err := t.vote(v, about(r)...); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	over := t.begun("ann")
	_, err = t.Desk.ReviewBreakGlass(t.Context(), over.ID, "aud", "x", over.BegunAt, Entry(audit.BreakGlassReviewed, ""))
	t.want("a review, though nobody has ended it", err, nil)
	_, err = t.vote(alone(r, over, "ann"))
	t.want("after its review", err, broker.ErrNotFound)
	if got := t.request(r.ID); got.State != broker.RequestPending || len(got.Votes) != 2 || t.glass(g.ID).Used != 0 {
		t.Fatalf("%+v", got)
	}
	out, err := t.vote(alone(r, g, "gil"), about(r)...)
	t.want("alone", err, nil)
	if out.State != broker.RequestApproved || len(out.Votes) != 2 || out.Votes[1].BreakGlass != g.ID {
		t.Errorf("%+v", out)
	}
	t.same("stored", t.request(r.ID), out)
	found, err := t.Desk.Requests(t.Context(), broker.RequestFilter{BreakGlass: g.ID})
	if err != nil || len(found) != 1 || found[0].ID != r.ID || t.glass(g.ID).Used != 1 {
		t.Errorf("%d found, %v, %d used", len(found), err, t.glass(g.ID).Used)
	}
	// At most so many, whoever asks at the same time.
	other := t.another()
	var wg sync.WaitGroup
	won := make(chan bool, 6)
	for i := range 6 {
		next := t.asked(needs(2))
		wg.Go(func() {
			if _, err := []broker.Desk{t.Desk, other.Desk}[i%2].Vote(context.WithoutCancel(t.Context()), alone(next, g, "gil"), until); err == nil {
				won <- true
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || t.glass(g.ID).Used != 2 {
		t.Errorf("%d more were taken, %d are counted", len(won), t.glass(g.ID).Used)
	}
}

// voteAloneAgainstEnd: a yes and the end of its period at the same time: either it counts
// and is counted, or it does not.
func voteAloneAgainstEnd(t *journalTest) {
	other := t.another()
	for i := range 6 {
		g := t.begun(fmt.Sprint("p", i))
		r := t.asked(needs(2))
		var wg sync.WaitGroup
		var voted, ended error
		wg.Go(func() {
			_, voted = t.Desk.Vote(context.WithoutCancel(t.Context()), alone(r, g, g.Person), until)
		})
		wg.Go(func() {
			_, ended = other.Desk.EndBreakGlass(context.WithoutCancel(t.Context()), g.ID, "ola", Epoch.Add(2*time.Minute), Entry(audit.BreakGlassEnded, ""))
		})
		wg.Wait()
		used, state := t.glass(g.ID).Used, t.request(r.ID).State
		if ended != nil || (voted == nil) != (used == 1) || (voted == nil) != (state == broker.RequestApproved) {
			t.Errorf("voted %v, ended %v, %d used, %s", voted, ended, used, state)
		}
	}
}
