package mcp_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
)

// The set of tools is fixed, they refuse unknown members, and their results
// match their schemas.
func TestTools(t *testing.T) {
	t.Parallel()
	s := newFixture(t).connect()
	list, err := s.s.ListTools(t.Context(), &sdk.ListToolsParams{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		in := tool.InputSchema.(map[string]any)
		if in["additionalProperties"] != false || tool.OutputSchema.(map[string]any)["additionalProperties"] != false || tool.Annotations == nil {
			t.Errorf("%s is open: %v", tool.Name, in)
		}
	}
	slices.Sort(names)
	if want := []string{"get_request", "list_credentials", "request_credential", "revoke_credential"}; !slices.Equal(names, want) {
		t.Errorf("tools %v, want %v: without a runner nobody completes", names, want)
	}
	if _, err := s.try("complete_task", nil); err == nil {
		t.Error("complete_task was there")
	}
}

// fits compares a result with the schema of its tool.
func (s *session) fits(tool string, a answer) {
	s.t.Helper()
	list, err := s.s.ListTools(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, known := range list.Tools {
		if known.Name != tool {
			continue
		}
		var schema jsonschema.Schema
		text, err := json.Marshal(known.OutputSchema)
		if err == nil {
			err = json.Unmarshal(text, &schema)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		resolved, err := schema.Resolve(nil)
		if err == nil {
			err = resolved.Validate(a.json)
		}
		if err != nil || a.failed {
			s.t.Errorf("%s answered %s: %v", tool, a.text, err)
		}
		return
	}
	s.t.Errorf("there is no %s", tool)
}

// A placeholder is returned; a usable credential is not returned, and is
// revoked.
//
//ebb:invariant I2 The MCP server revokes a credential that was minted for a client and is not returned to a client
//ebb:invariant I8 The MCP server shows a token to its client only if the whole token is a valid placeholder
func TestRequestCredential(t *testing.T) {
	t.Parallel()
	s := newFixture(t).connect()
	got := s.call("request_credential", map[string]any{"scope": "stripe:charges:read", "reason": "look at charges", "ttl_seconds": 60})
	s.fits("request_credential", got)
	if got.str("state") != "issued" || got.str("placeholder") != "ebb-placeholder."+got.str("lease_id") || got.str("resource") == "" && got.str("expires_at") == "" {
		t.Errorf("a placeholder: %s", got.text)
	}
	direct := s.call("request_credential", map[string]any{"scope": "orders:eu/42:read", "tool": "orders-cli"})
	s.fits("request_credential", direct)
	if direct.str("state") != "by_command" || direct.json["lease_id"] != nil || !strings.Contains(direct.text, `["ebb","token","--scope","orders:eu/42:read","--tool","orders-cli"]`) {
		t.Errorf("a credential of its own: %s", direct.text)
	}
	list := s.call("list_credentials", nil)
	s.fits("list_credentials", list)
	states := map[string]any{}
	for _, c := range list.json["credentials"].([]any) {
		states[c.(map[string]any)["scope"].(string)] = c.(map[string]any)["state"]
	}
	if states["stripe:charges:read"] != "live" || states["orders:eu/42:read"] != "revoked" || len(states) != 2 {
		t.Errorf("alive: %s", list.text)
	}
	gone := s.call("revoke_credential", map[string]any{"lease_id": got.str("lease_id")})
	s.fits("revoke_credential", gone)
	if gone.str("state") == "live" {
		t.Errorf("revoked: %s", gone.text)
	}
}

// A request that waits for an approval continues while the client does
// something else, is found again by its ID, and is a single request however
// often it is repeated.
func TestPending(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := h.connect()
	ask := map[string]any{"scope": "stripe:charges:write", "reason": "refund 42"}
	first := s.call("request_credential", ask)
	s.fits("request_credential", first)
	id := first.str("request_id")
	if first.str("state") != "pending" || first.json["request_url"] != nil || !strings.Contains(first.str("do_next"), "ebb requests show "+id) || first.json["expires_in_seconds"].(float64) <= 0 {
		t.Fatalf("pending: %s", first.text)
	}
	ask["reason"] = "other words"
	if again := s.call("request_credential", ask); again.str("request_id") != id {
		t.Errorf("asked again: %s", again.text)
	}
	if list := s.call("list_credentials", nil); !strings.Contains(list.text, id) || len(list.json["credentials"].([]any)) != 0 {
		t.Errorf("what waits: %s", list.text)
	}
	if _, requests := h.tally(); requests != 1 {
		t.Errorf("%d requests", requests)
	}
	h.approve(id)
	got := s.call("get_request", map[string]any{"request_id": id, "wait_seconds": 50})
	s.fits("get_request", got)
	if got.str("state") != "issued" || !strings.HasPrefix(got.str("placeholder"), "ebb-placeholder.lse_") {
		t.Errorf("approved: %s", got.text)
	}
	if again := s.call("get_request", map[string]any{"request_id": id}); again.str("placeholder") != got.str("placeholder") {
		t.Errorf("looked at again: %s", again.text)
	}
}

// A refusal names the next step, and mints nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := h.connect()
	for scope, want := range map[string]string{"mail:x:read": "invalid_scope", "nobody:x:read": "invalid_scope", "orders:us/1:read": "invalid_scope"} {
		got := s.call("request_credential", map[string]any{"scope": scope})
		if !got.failed || got.str("error") != want || got.str("do_next") == "" || got.str("message") == "" {
			t.Errorf("%s: %s", scope, got.text)
		}
	}
	if _, err := h.env.Broker.CompleteTask(t.Context(), h.env.Principals[brokertest.Runner], s.task, 0); err != nil {
		t.Fatal(err)
	}
	for tool, args := range map[string]any{"request_credential": map[string]any{"scope": "orders:eu/42:read"}, "list_credentials": nil} {
		if got := s.call(tool, args); !got.failed || !strings.Contains(strings.ToLower(got.str("do_next")), "the task has ended") {
			t.Errorf("%s after the end: %s", tool, got.text)
		}
	}
	if leases, requests := h.tally(); leases != 0 || requests != 0 {
		t.Errorf("%d credentials and %d requests came of it", leases, requests)
	}
}

// The task is completed through the runner, with a single call.
func TestCompleteTask(t *testing.T) {
	t.Parallel()
	asked := 0
	s := newFixture(t).connect(func(c *mcp.Config) {
		c.Complete = func(context.Context) (mcp.Completed, error) { asked++; return mcp.Completed{Revoked: 3}, nil }
	})
	if got := s.call("complete_task", map[string]any{"task_id": "tsk_0"}); !got.failed || asked != 0 {
		t.Errorf("a task by name: %s", got.text)
	}
	got := s.call("complete_task", map[string]any{})
	s.fits("complete_task", got)
	if asked != 1 || got.json["revoked"] != 3.0 {
		t.Errorf("asked %d times: %s", asked, got.text)
	}
}
