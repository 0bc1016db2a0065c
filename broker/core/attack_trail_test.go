package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// I11 within I12: requests that need approval, repeated requests, and requests beyond the rate are
// in the audit log, and cannot fill it.
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

// longest returns the longest scope value that parses.
func longest(action string) string {
	out := make([]string, scopes.MaxScopes)
	for i := range out {
		head, tail := fmt.Sprintf("orders:eu/%02d/", i), ":"+action
		path := strings.Repeat(strings.Repeat("x", 62)+"/", 7)
		out[i] = head + path + strings.Repeat("y", scopes.MaxBytes-len(head)-len(path)-len(tail)) + tail
	}
	return strings.Join(out, " ")
}

// I11: the refusal of a very long request is recorded as a refusal.
//
//ebb:invariant I11
func TestAttackDenialTooLongToRecord(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Policies: map[string][]byte{"p.cedar": []byte(`@id("no") forbid (principal, action, resource);`)}})
	s := x.Open(t, brokertest.Spec())
	_, err := s.Ask(t, longest("read"))
	kindOf(t, err, broker.Denied)
	if n := len(entries(t, x, broker.EntryFilter{TaskID: s.Task.ID, Kind: audit.TokenDenied})); n != 1 {
		t.Errorf("%d denials on the record, want 1", n)
	}
}

// A long request for approval gets the proper response.
func TestAttackRequestTooLongToRecord(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	_, err := s.AskDeferred(t, longest("write"))
	if k := broker.AsError(err).Kind; k != broker.Pending && k != broker.InvalidScope {
		t.Errorf("%v", err)
	}
}

// A flood of garbage from unknown callers must not hide the violations of a known sandbox.
//
//ebb:invariant I11
func TestAttackViolationsHiddenByAFlood(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	for range 300 {
		_, _ = x.Broker.AuthenticateAssertion(t.Context(), "x.y.z", "", broker.Possession{})
	}
	r := s.Request(t, "orders:eu/1:read")
	for range 4 {
		_, _ = x.Broker.Token(t.Context(), r)
	}
	if n := len(entries(t, x, broker.EntryFilter{TaskID: s.Task.ID, Kind: audit.TokenReplayed})); n != 3 {
		t.Errorf("%d of 3 replays are on the record", n)
	}
	x.memory.lose()
	x.replica(t)
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || live.Violations != 3 {
		t.Errorf("%d violations after the live store was lost, want 3 (%v)", live.Violations, err)
	}
}
