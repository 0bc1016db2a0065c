package broker_test

import (
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
)

// I11 within I12: asking for what needs a person, asking for the same again, and
// asking too often are on the record, and cannot fill it.
func TestAttackAskingWithoutEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Caps.MintsPerMinute = 60
	s, other := x.Open(t, spec), x.Open(t, brokertest.Spec())
	count := func(kind, task string) int {
		t.Helper()
		return len(entries(t, x, broker.EntryFilter{Kind: kind, TaskID: task}))
	}
	want := func(when, kind, task string, n int) {
		t.Helper()
		if got := count(kind, task); got != n {
			t.Errorf("%s: %d of %s are on the record, want %d", when, got, kind, n)
		}
	}
	for range 10 {
		_, err := s.Ask(t, "orders:eu/1:write")
		kindOf(t, err, broker.AskRequired)
	}
	want("ten asks", audit.TokenAsk, s.Task.ID, 1)
	_, err := other.Ask(t, "orders:eu/1:write")
	kindOf(t, err, broker.AskRequired)
	want("another task", audit.TokenAsk, other.Task.ID, 1)

	first := pending(t, s, "orders:eu/1:write")
	want("the first of a request", audit.RequestRepeated, s.Task.ID, 0)
	for range 5 {
		pending(t, s, "orders:eu/1:write")
	}
	pending(t, s, "orders:eu/2:write")
	pending(t, s, "orders:eu/2:write")
	want("two requests, repeated", audit.RequestRepeated, s.Task.ID, 2)
	if es := entries(t, x, broker.EntryFilter{Kind: audit.RequestRepeated, RequestID: first.RequestID}); len(es) != 1 || es[0].Actor != s.Task.Sandbox.ID {
		t.Errorf("%v", es)
	}

	for err == nil || broker.AsError(err).Kind != broker.TooMany {
		_, err = s.Ask(t, "orders:eu/1:read")
	}
	for range 50 {
		_, err = s.Ask(t, "orders:eu/1:read")
		kindOf(t, err, broker.TooMany)
	}
	want("a flood", audit.TokenLimited, s.Task.ID, 1)
	want("a flood elsewhere", audit.TokenLimited, other.Task.ID, 0)
	x.Clock.Add(time.Minute)
	_, err = s.Ask(t, "orders:eu/1:write")
	kindOf(t, err, broker.AskRequired)
	want("a minute later", audit.TokenAsk, s.Task.ID, 2)
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || live.Denials != 0 || live.Violations != 0 {
		t.Errorf("asking is held against the task: %d, %d (%v)", live.Denials, live.Violations, err)
	}
}
