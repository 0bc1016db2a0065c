package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
)

// Glass returns a new period with every member set.
func Glass(person string) broker.BreakGlass {
	return broker.BreakGlass{
		BreakGlassPlan: broker.BreakGlassPlan{
			ID: ID("brk_"), Person: person, Incident: "INC-7", Reason: "nobody 'else'; -- is \"awake\" \U0001f30a", TTL: 1800, Most: 2, AskedAt: Epoch.Add(-time.Minute),
		},
		Also: []string{person + "@example.org"}, Proof: `{"key":"x"}`, ACR: "phr", Session: "session of " + person, Groups: []string{"oncall", "a b"}, BegunAt: Epoch, EndsAt: Epoch.Add(30 * time.Minute),
	}
}

// begin begins g in a session of its person, and creates that session if it does not
// exist.
func (t *approvalTest) begin(g broker.BreakGlass) error {
	t.Helper()
	t.signedIn(g)
	return t.ApprovalStore.BeginBreakGlass(context.WithoutCancel(t.Context()), g, g.BegunAt.Add(-24*time.Hour), 3, Entry(audit.BreakGlassBegun, ""))
}

func (t *approvalTest) signedIn(g broker.BreakGlass) {
	t.Helper()
	_, err := t.Sessions.Session(t.Context(), g.Session)
	if !errors.Is(err, people.ErrNone) || g.Session == "" {
		return
	}
	s := people.Session{ID: g.Session, Act: "act", Person: g.Person, CreatedAt: Epoch, SeenAt: Epoch, ExpiresAt: Epoch.Add(48 * time.Hour)}
	if err := t.Sessions.AddSession(t.Context(), s); err != nil && g.Person != "" {
		t.Fatal(err)
	}
}

func (t *approvalTest) begun(person string) broker.BreakGlass {
	t.Helper()
	g := Glass(person)
	t.want("begin", t.begin(g), nil)
	return g
}

func (t *approvalTest) glass(id string) broker.BreakGlass {
	t.Helper()
	gs, err := t.ApprovalStore.BreakGlasses(t.Context(), broker.BreakGlassFilter{ID: id})
	if err != nil || len(gs) != 1 {
		t.Fatalf("break-glass %s: got %d, %v", id, len(gs), err)
	}
	return gs[0]
}

func (t *approvalTest) endGlass(id string, at time.Time) error {
	_, err := t.ApprovalStore.EndBreakGlass(context.WithoutCancel(t.Context()), id, "ola", at, glassEntry(audit.BreakGlassEnded))
	return err
}

// glassEntry returns an entry with the number of uses of a period.
func glassEntry(kind string) broker.BreakGlassEntry {
	return func(g broker.BreakGlass) audit.Entry {
		e := Entry(kind, "")
		e.Data = fmt.Appendf(nil, `{"break_glass":%q,"used":%d}`, g.ID, g.Used)
		return e
	}
}

// breakGlass: a period begins, ends and is reviewed, each once and with an audit entry.
func breakGlass(t *approvalTest) {
	g := t.begun("gil")
	t.same("begun", t.glass(g.ID), g)
	g.EndedAt, g.EndedBy = Epoch.Add(5*time.Minute), "ola"
	t.want("end", t.endGlass(g.ID, g.EndedAt), nil)
	t.same("ended", t.glass(g.ID), g)
	t.want("end again", t.endGlass(g.ID, g.EndedAt), broker.ErrDone)
	t.want("end none", t.endGlass("brk_none", g.EndedAt), broker.ErrDone)
	g.ReviewedAt, g.ReviewedBy, g.Note = Epoch.Add(time.Hour), "aud", "fine \U0001f30a"
	review := func() error {
		_, err := t.ApprovalStore.ReviewBreakGlass(t.Context(), g.ID, "aud", g.Note, g.ReviewedAt, glassEntry(audit.BreakGlassReviewed))
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

// breakGlassRefuses: a person has one open period, an id and a sign-in are used for one
// period only, and the number of periods in a time is limited.
func breakGlassRefuses(t *approvalTest) {
	for name, spoil := range map[string]func(*broker.BreakGlass){
		"no id": func(g *broker.BreakGlass) { g.ID = "" }, "no session": func(g *broker.BreakGlass) { g.Session = "" }, "nobody": func(g *broker.BreakGlass) { g.Person = "" }, "no time": func(g *broker.BreakGlass) { g.BegunAt = time.Time{} },
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

// breakGlassOtherName: a person who signs in with another name counts as the same person.
func breakGlassOtherName(t *approvalTest) {
	first := t.begun("gil")
	other := Glass("sso:1")
	other.Also = []string{"GIL@example.org"}
	t.want("while one is open", t.begin(other), broker.ErrExists)
	t.want("end", t.endGlass(first.ID, first.EndsAt), nil)
	capped := func(g broker.BreakGlass) error {
		return t.ApprovalStore.BeginBreakGlass(context.WithoutCancel(t.Context()), g, g.BegunAt.Add(-time.Hour), 1, Entry(audit.BreakGlassBegun, ""))
	}
	t.want("a second in that time", capped(other), broker.ErrCap)
	uma := Glass("uma")
	t.signedIn(uma)
	t.want("somebody else", capped(uma), nil)
}

// breakGlassSession: a period begins in a current session of its person.
func breakGlassSession(t *approvalTest) {
	ctx := context.WithoutCancel(t.Context())
	g, theirs := Glass("gil"), Glass("uma")
	t.signedIn(g)
	t.signedIn(theirs)
	try := func(change func(*broker.BreakGlass)) error {
		x := g
		change(&x)
		return t.ApprovalStore.BeginBreakGlass(ctx, x, Epoch.Add(-time.Hour), 3, Entry(audit.BreakGlassBegun, ""))
	}
	t.want("no such session", try(func(g *broker.BreakGlass) { g.Session = "none" }), broker.ErrNotFound)
	t.want("somebody else's", try(func(g *broker.BreakGlass) { g.Session = theirs.Session }), broker.ErrNotFound)
	t.want("over by time", try(func(g *broker.BreakGlass) { g.BegunAt, g.EndsAt = Epoch.Add(48*time.Hour), Epoch.Add(49*time.Hour) }), broker.ErrNotFound)
	if n, err := t.Sessions.EndSessions(ctx, "gil", g.Session); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	t.want("signed out", try(func(*broker.BreakGlass) {}), broker.ErrNotFound)
	if n := t.written(audit.BreakGlassBegun); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// breakGlassPages: filters and pages, newest first.
func breakGlassPages(t *approvalTest) {
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
	t.signedIn(Glass("gil"))
	one("begin", func(i int) error {
		return stores[i%2].BeginBreakGlass(ctx, Glass("gil"), Epoch.Add(-time.Hour), 3, Entry(audit.BreakGlassBegun, ""))
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
	names := []broker.BreakGlass{Glass("ida"), Glass("ida.berg")}
	for i := range names {
		names[i].Also = []string{"ida@example.org"}
		t.signedIn(names[i])
	}
	one("begin under two names", func(i int) error {
		g := names[i%2]
		g.ID, g.Proof = ID("brk_"), fmt.Sprintf(`{"key":"%d"}`, i)
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
		g := Glass(fmt.Sprint("p", i))
		t.signedIn(g)
		var wg sync.WaitGroup
		var won atomic.Int32
		for range 4 {
			x := g
			x.ID = ID("brk_")
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
