package issuance

import (
	"errors"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/scopes"
)

// I4, I5: each limit refuses by itself, even when all other limits allow the token.
//
//ebb:invariant I4 A credential lives no longer than its mint request asked for
//ebb:invariant I4 A credential lives no longer than policy allows
//ebb:invariant I4 A credential expires no later than the deadline of its task
//ebb:invariant I4 A credential expires no later than the evidence of its sandbox permits
//ebb:invariant I4 A credential expires no later than the approved grant under which it is minted permits
//ebb:invariant I4 A credential expires no later than the parent credential from which it was narrowed
//ebb:invariant I5 A mint is refused unless the scope that the request asked for covers the issued scope
//ebb:invariant I5 A mint is refused unless the ceiling of the task covers the issued scope
//ebb:invariant I5 A mint is refused unless the scope of the parent credential covers the issued scope
func TestEachFrameHoldsByItself(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := &TokenIssuer{limits: broker.Limits{}.WithDefaults()}
	one, all := scopes.MustParseSet("orders:eu/1:read"), scopes.MustParseSet("orders:**:*")
	fits := func() (kernel.MintRequest, kernel.Decision) {
		w := kernel.MintRequest{Scopes: all, TTL: time.Minute}
		w.Live.Ceiling, w.Live.Deadline = all, now.Add(time.Hour)
		w.Parent = &kernel.OwnToken{Scopes: all, Exp: now.Add(time.Hour)}
		return w, kernel.Decision{Scopes: all, TTL: time.Minute}
	}
	for name, change := range map[string]func(*kernel.MintRequest, *kernel.Decision){
		"asked":         func(w *kernel.MintRequest, _ *kernel.Decision) { w.Scopes = one },
		"ceiling":       func(w *kernel.MintRequest, _ *kernel.Decision) { w.Live.Ceiling = one },
		"parent":        func(w *kernel.MintRequest, _ *kernel.Decision) { w.Parent.Scopes = one },
		"parent's time": func(w *kernel.MintRequest, _ *kernel.Decision) { w.Parent.Exp = now.Add(30 * time.Second) },
		"nothing":       func(_ *kernel.MintRequest, d *kernel.Decision) { d.Scopes = scopes.Set{} },
	} {
		w, d := fits()
		if _, _, err := b.frame(w, d, now); err != nil {
			t.Fatal(err)
		}
		change(&w, &d)
		if set, exp, err := b.frame(w, d, now); !errors.Is(err, kernel.ErrWider) || !set.Empty() {
			t.Errorf("%s: %s until %s (%v)", name, set, exp, err)
		}
	}
	for name, change := range map[string]func(*kernel.MintRequest, *kernel.Decision, time.Time){
		"asked":    func(w *kernel.MintRequest, _ *kernel.Decision, end time.Time) { w.TTL = end.Sub(now) },
		"policy":   func(_ *kernel.MintRequest, d *kernel.Decision, end time.Time) { d.TTL = end.Sub(now) },
		"provider": func(w *kernel.MintRequest, _ *kernel.Decision, end time.Time) { w.Provider.MaxTTL = end.Sub(now) },
		"task":     func(w *kernel.MintRequest, _ *kernel.Decision, end time.Time) { w.Live.Deadline = end },
		"evidence": func(w *kernel.MintRequest, _ *kernel.Decision, end time.Time) { w.NotAfter = end },
		"grant":    func(_ *kernel.MintRequest, d *kernel.Decision, end time.Time) { d.Until = end },
	} {
		w, d := fits()
		change(&w, &d, now.Add(7*time.Second))
		if _, exp, err := b.frame(w, d, now); err != nil || !exp.Equal(now.Add(7*time.Second)) {
			t.Errorf("%s: until %s (%v)", name, exp, err)
		}
	}
}

// I4, I5: a delegated task stays within the delegating task, before the store counts anything.
func TestChildHoldsByItself(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := scopes.MustParseSet("orders:**:*")
	parent := broker.Task{ID: "tsk_1", Ceiling: set, Caps: broker.Caps{Uses: 3}, Deadline: now.Add(time.Hour), Delegation: &broker.Delegation{Expect: broker.Expect{Attestor: broker.EnrollName}, Depth: 1}}
	for name, s := range map[string]broker.DelegationSpec{
		"more uses": {Ceiling: set, Uses: 4}, "uncounted": {Ceiling: set}, "as deep": {Ceiling: set, Uses: 1, Depth: 1},
	} {
		if _, err := parent.Child(s, "tsk_2", now, time.Time{}); err == nil {
			t.Errorf("%s: delegated", name)
		}
	}
	s := broker.DelegationSpec{Ceiling: set, Uses: 3}
	for name, end := range map[string]time.Time{"the task": {}, "the evidence": now.Add(time.Minute)} {
		want := end
		if end.IsZero() {
			want = parent.Deadline
		}
		if got, err := parent.Child(s, "tsk_2", now, end); err != nil || !got.Deadline.Equal(want) || got.Caps.Uses != 3 {
			t.Errorf("until the end of %s: %s, %d uses (%v)", name, got.Deadline, got.Caps.Uses, err)
		}
	}
}
