package main

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/history"
)

// TestHistory: the history of the demonstration contains every state that the
// console can show, each created through the API.
func TestHistory(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // every wait in the history is bounded
	defer cancel()
	desk, err := history.OpenHelpdesk(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = desk.Close() }()
	e, clock, keys, err := historyNode(ctx, desk, t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	}()
	if err := history.Run(ctx, history.Config{Issuer: e.url, Keys: keys, Clock: clock, Helpdesk: desk, HTTP: &http.Client{Timeout: 30 * time.Second}, Broker: e.node.broker, Sessions: e.node.store, Transcripts: e.node.transcripts}); err != nil {
		t.Fatal(err)
	}
	who := broker.Principal{ID: history.Operator, Roles: []broker.Role{broker.RoleOperator, broker.RoleAuditor}}
	b := e.node.broker
	glass, err := b.BreakGlasses(t.Context(), who, broker.BreakGlassFilter{})
	if err != nil || len(glass) != 1 || glass[0].Used != 1 || glass[0].ReviewedBy != history.Auditor {
		t.Errorf("break-glass: %+v, %v", glass, err)
	}
	tasks, err := b.Tasks(t.Context(), who, broker.TaskFilter{Page: broker.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if first, last := tasks[0].OpenedAt, tasks[len(tasks)-1].OpenedAt; last.Sub(first) < 6*time.Hour || time.Since(last) > 10*time.Minute {
		t.Errorf("the day is from %s to %s", first, last)
	}
	has(t, "task", tasks, func(k broker.Task) string { return string(k.State) + " " + string(k.Cause) },
		"open ", "closed completed", "closed suspicious", "closed heartbeat", "closed parent")
	requests, err := b.Requests(t.Context(), who, broker.RequestFilter{Page: broker.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	has(t, "request", requests, func(r broker.Request) string { return string(r.State) + " " + string(r.Code) },
		"pending ", "denied too_broad", "denied suspicious", "issued ", "expired no_answer")
	leases, err := b.Leases(t.Context(), who, broker.LeaseFilter{Page: broker.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	has(t, "credential", leases, func(l broker.Lease) string { return string(l.State) + " " + string(l.Cause) },
		"live ", "revoked completed", "revoked suspicious", "expired ", "revoking completed")
}

func has[T any](t *testing.T, what string, items []T, name func(T) string, want ...string) {
	t.Helper()
	var got []string
	for _, it := range items {
		got = append(got, name(it))
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no %s is %q; there are %q", what, w, got)
		}
	}
}
