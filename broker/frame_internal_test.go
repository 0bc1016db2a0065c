package broker

import (
	"errors"
	"testing"
	"time"

	"ebb/scopes"
)

// I4, I5: each of the frames refuses by itself, whatever those before it let through.
func TestEachFrameHoldsByItself(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := &Broker{cfg: Config{Limits: Limits{}.withDefaults()}}
	one, all := scopes.MustParseSet("orders:eu/1:read"), scopes.MustParseSet("orders:**:*")
	fits := func() (want, decided) {
		w := want{scopes: all, ttl: time.Minute}
		w.live.Ceiling, w.live.Deadline = all, now.Add(time.Hour)
		w.parent = &ownToken{scopes: all, exp: now.Add(time.Hour)}
		return w, decided{scopes: all, ttl: time.Minute}
	}
	for name, change := range map[string]func(*want, *decided){
		"asked":         func(w *want, _ *decided) { w.scopes = one },
		"ceiling":       func(w *want, _ *decided) { w.live.Ceiling = one },
		"parent":        func(w *want, _ *decided) { w.parent.scopes = one },
		"parent's time": func(w *want, _ *decided) { w.parent.exp = now.Add(30 * time.Second) },
		"nothing":       func(_ *want, d *decided) { d.scopes = scopes.Set{} },
	} {
		w, d := fits()
		if _, _, err := b.frame(w, d, now); err != nil {
			t.Fatal(err)
		}
		change(&w, &d)
		if set, exp, err := b.frame(w, d, now); !errors.Is(err, errWider) || !set.Empty() {
			t.Errorf("%s: %s until %s (%v)", name, set, exp, err)
		}
	}
	for name, change := range map[string]func(*want, *decided, time.Time){
		"asked":    func(w *want, _ *decided, end time.Time) { w.ttl = end.Sub(now) },
		"policy":   func(_ *want, d *decided, end time.Time) { d.ttl = end.Sub(now) },
		"provider": func(w *want, _ *decided, end time.Time) { w.provider.MaxTTL = end.Sub(now) },
		"task":     func(w *want, _ *decided, end time.Time) { w.live.Deadline = end },
		"evidence": func(w *want, _ *decided, end time.Time) { w.notAfter = end },
		"grant":    func(_ *want, d *decided, end time.Time) { d.until = end },
	} {
		w, d := fits()
		change(&w, &d, now.Add(7*time.Second))
		if _, exp, err := b.frame(w, d, now); err != nil || !exp.Equal(now.Add(7*time.Second)) {
			t.Errorf("%s: until %s (%v)", name, exp, err)
		}
	}
}

// I4, I5: what is delegated lies within who delegates, whatever the store counts later.
func TestChildHoldsByItself(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := scopes.MustParseSet("orders:**:*")
	parent := Task{ID: "tsk_1", Ceiling: set, Caps: Caps{Uses: 3}, Deadline: now.Add(time.Hour), Delegation: &Delegation{Expect: Expect{Attestor: enrollName}, Depth: 1}}
	for name, s := range map[string]DelegationSpec{
		"more uses": {Ceiling: set, Uses: 4}, "uncounted": {Ceiling: set}, "as deep": {Ceiling: set, Uses: 1, Depth: 1},
	} {
		if _, err := parent.child(s, "tsk_2", now, time.Time{}); err == nil {
			t.Errorf("%s: delegated", name)
		}
	}
	s := DelegationSpec{Ceiling: set, Uses: 3}
	for name, end := range map[string]time.Time{"the task": {}, "the evidence": now.Add(time.Minute)} {
		want := end
		if end.IsZero() {
			want = parent.Deadline
		}
		if got, err := parent.child(s, "tsk_2", now, end); err != nil || !got.Deadline.Equal(want) || got.Caps.Uses != 3 {
			t.Errorf("until the end of %s: %s, %d uses (%v)", name, got.Deadline, got.Caps.Uses, err)
		}
	}
}
