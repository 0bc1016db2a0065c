package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// byRole has two principals of each role. The second one does not own the
// runner's tasks, or is in no group that is asked.
var byRole = map[string][2]string{
	"viewer": {brokertest.Viewer}, "approver": {brokertest.Approver, "out"}, "auditor": {brokertest.Auditor}, "operator": {"op"},
	"runner": {brokertest.Runner, brokertest.Runner2}, "resource_server": {brokertest.Server},
}

// byEvidence are routes without a principal: a sandbox or everyone calls them.
var byEvidence = []string{"POST /v1/enroll", "POST /v1/challenge", "GET /v1/ssh/ca", "GET /v1/ssh/krl", "GET /v1/ssh/known_hosts"}

// TestRoles calls every route of the JSON API with every role and compares the
// result with the table in docs/reference/console.md.
//
//ebb:invariant I6 A principal that has none of the required roles is refused
func TestRoles(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{loose: true, broker: brokertest.Config{People: []broker.Principal{
		{ID: "op", Roles: []broker.Role{broker.RoleOperator}}, {ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}},
	}}})
	table := brokertest.RoleTable(t, "../../docs/reference/console.md", "API")
	known := map[string]bool{}
	for _, route := range r.api.Routes() {
		name := route.Method + " " + route.Path
		if known[name] = true; !strings.HasPrefix(route.Path, "/v1/") || slices.Contains(byEvidence, name) {
			if table[name] != nil {
				t.Errorf("%s is in the table, and no principal calls it", name)
			}
			continue
		}
		row := table[name]
		if row == nil {
			t.Errorf("%s is not in the table", name)
			continue
		}
		if roles, want := slices.Sorted(maps.Keys(row)), slices.Sorted(maps.Keys(byRole)); !slices.Equal(roles, want) {
			t.Errorf("%s: roles %v, want %v", name, roles, want)
		}
		for role, cell := range row {
			r.mayCall(t, route.Method, route.Path, role, cell)
		}
	}
	for name := range table {
		if !known[name] {
			t.Errorf("%s is in the table and does not exist", name)
		}
	}
}

// mayCall compares one cell of the table with the result of a call.
func (r *rig) mayCall(t *testing.T, method, path, role, cell string) {
	t.Helper()
	who, other := byRole[role][0], byRole[role][1]
	may, may2 := cell != "no", cell == "yes" || cell == "lists"
	if !slices.Contains([]string{"yes", "no", "own", "group", "lists", "lists own", "lists group"}, cell) {
		t.Errorf("%s %s: %q is no word of the table", method, path, cell)
	}
	if got := r.called(t, method, path, who, strings.HasPrefix(cell, "lists")); got != may {
		t.Errorf("%s %s as %s: %v, the table says %s", method, path, role, got, cell)
	}
	if other == "" {
		return
	}
	if got := r.called(t, method, path, other, strings.HasPrefix(cell, "lists")); got != may2 {
		t.Errorf("%s %s as another %s: %v, the table says %s", method, path, role, got, cell)
	}
}

// called reports whether who may call a route about new objects of the runner.
// lists: it counts only if the response contains them.
func (r *rig) called(t *testing.T, method, path, who string, lists bool) bool {
	t.Helper()
	b := r.sandbox(t)
	b.access(t, canRead)
	b.pend(t, mustAsk)
	ctx, aud := t.Context(), r.env.Principals[brokertest.Auditor]
	leases, err := r.env.Broker.Leases(ctx, aud, broker.LeaseFilter{TaskID: b.task})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	asked, err := r.env.Broker.Requests(ctx, aud, broker.RequestFilter{TaskID: b.task})
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	reason := map[string]any{"reason": "odd"}
	body, known := map[string]any{
		"/v1/tasks":            map[string]any{"name": "n", "kind": "k", "ttl_seconds": 60, "ceiling": canRead, "sandbox_expected": map[string]any{"attestor": "enroll"}},
		"/v1/tasks/:id/ticket": nil, "/v1/tasks/:id/heartbeat": nil, "/v1/tasks/:id/pause": reason, "/v1/tasks/:id/resume": map[string]any{}, "/v1/tasks/:id/complete": nil, "/v1/tasks/:id/stop": reason, "/v1/owners/:digest/stop": map[string]any{"owner": "cy@example.com", "reason": "odd"},
		"/v1/tasks/:id/taint": map[string]any{"sources": []string{"issues"}}, "/v1/signin-link": nil,
		"/v1/tasks/:id/egress-endpoints": map[string]any{}, "/v1/tasks/:id/egress-endpoints/:endpoint/register": map[string]any{"network_namespace": 1}, "/v1/tasks/:id/egress-endpoints/:endpoint/close": nil,
		"/v1/tasks/:id/egress-endpoints/:endpoint/connect": nil,
		"/v1/requests/:id/approve":                         map[string]any{"digest": asked[0].Digest}, "/v1/requests/:id/deny": map[string]any{"code": "not_needed"},
		"/v1/leases/:id/revoke": reason, "/v1/leases/:id/retry": nil, "/v1/leases/:id/force": reason,
		"/v1/attestors/:name/explain": map[string]any{"evidence": "x"}, "/v1/providers/:name/check": map[string]any{},
		"/v1/secrets": map[string]any{"name": "n", "value": "v"}, "/v1/secrets/:name/remove": nil,
		"/v1/policy/explain": map[string]any{"query": map[string]any{}},
	}[path]
	if method == http.MethodPost && !known {
		t.Fatalf("no body for %s", path)
	}
	if path == "/v1/tasks/:id/receipt" {
		r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+b.task+"/complete", nil)
	}
	id := b.task
	switch {
	case strings.HasPrefix(path, "/v1/requests"):
		id = asked[0].ID
	case strings.HasPrefix(path, "/v1/leases"):
		id = leases[0].ID
	}
	at := strings.NewReplacer(":id", id, ":digest", ownerDigest("cy@example.com"), ":box", "none", "attestors/:name", "attestors/enroll", "providers/:name", "providers/orders", ":name", "none").Replace(path)
	if lists && path != "/v1/tasks" {
		at += "?task_id=" + b.task
	} else if lists {
		at += "?limit=1000&order=desc"
	}
	if method == http.MethodGet {
		body = nil
	}
	a := r.v1(t, who, method, at, body)
	switch {
	case strings.Contains(a.body, "This broker keeps no secrets"), strings.Contains(a.body, "This ebb does not make sign-in links"), strings.Contains(a.body, "This ebb runs no egress proxy"), strings.Contains(a.body, "There is no such transcript"), strings.Contains(a.body, "there is no third party to test"): // after the role
		return true
	case a.status == http.StatusUnauthorized:
		t.Errorf("%s %s as %s: %d %s", method, at, who, a.status, a.body)
		return false
	case a.status == http.StatusForbidden, a.status == http.StatusNotFound:
		return false
	case lists:
		return a.status == http.StatusOK && strings.Contains(a.body, id)
	case a.status == http.StatusBadRequest && !strings.HasPrefix(path, "/v1/policy") && !strings.HasPrefix(path, "/v1/attestors"):
		t.Errorf("%s %s as %s: the test sends what nobody may: %s", method, at, who, a.body)
	}
	return true
}
