package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
)

// newGlass returns a new period with every member set.
func newGlass(person string) broker.BreakGlass {
	return broker.BreakGlass{
		BreakGlassPlan: broker.BreakGlassPlan{
			ID: newID("brk_"), Person: person, Incident: "INC-7", Reason: "nobody 'else'; -- is \"awake\" \U0001f30a", TTL: 1800, Most: 2, AskedAt: Epoch.Add(-time.Minute),
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
	g := newGlass(person)
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
		g := newGlass("eve")
		if spoil(&g); t.begin(g) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	first := newGlass("gil")
	first.Proof, first.AuthAt = "", Epoch.Add(-time.Second)
	t.want("begin", t.begin(first), nil)
	t.want("a second one", t.begin(newGlass("gil")), broker.ErrExists)
	later := newGlass("gil")
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
	third := newGlass("gil")
	third.BegunAt, third.EndsAt = later.EndsAt, later.EndsAt.Add(time.Minute)
	t.want("a third", t.begin(third), nil)
	t.want("end", t.endGlass(third.ID, third.EndsAt), nil)
	fourth := newGlass("gil")
	fourth.BegunAt, fourth.EndsAt = third.EndsAt, third.EndsAt.Add(time.Minute)
	t.want("a fourth", t.begin(fourth), broker.ErrCap)
	fourth.BegunAt, fourth.EndsAt = Epoch.Add(24*time.Hour), Epoch.Add(25*time.Hour)
	t.want("a day later", t.begin(fourth), nil)
	t.want("somebody else", t.begin(newGlass("uma")), nil)
	if n := t.written(audit.BreakGlassBegun); n != 5 {
		t.Errorf("%d entries", n)
	}
}

// breakGlassOtherName: a person who signs in with another name counts as the same person.
func breakGlassOtherName(t *approvalTest) {
	first := t.begun("gil")
	other := newGlass("sso:1")
	other.Also = []string{"GIL@example.org"}
	t.want("while one is open", t.begin(other), broker.ErrExists)
	t.want("end", t.endGlass(first.ID, first.EndsAt), nil)
	capped := func(g broker.BreakGlass) error {
		return t.ApprovalStore.BeginBreakGlass(context.WithoutCancel(t.Context()), g, g.BegunAt.Add(-time.Hour), 1, Entry(audit.BreakGlassBegun, ""))
	}
	t.want("a second in that time", capped(other), broker.ErrCap)
	uma := newGlass("uma")
	t.signedIn(uma)
	t.want("somebody else", capped(uma), nil)
}

// breakGlassSession: a period begins in a current session of its person.
func breakGlassSession(t *approvalTest) {
	ctx := context.WithoutCancel(t.Context())
	g, theirs := newGlass("gil"), newGlass("uma")
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
