package console_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/signin/oidc"
)

// byRole has two people of each role. The second one does not own the runner's
// tasks, or is in no group that is asked.
var byRole = map[string][2]string{
	"viewer": {brokertest.Viewer}, "approver": {brokertest.Approver, "out"}, "auditor": {brokertest.Auditor}, "operator": {"op", "op2"}, "runner": {brokertest.Runner, brokertest.Runner2},
}

// rolesFixture has people of every role.
func rolesFixture(t *testing.T) *fixture {
	return newFixture(t, brokertest.Config{Transcripts: openTranscripts(t, filepath.Join(t.TempDir(), "transcripts")), BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}, PerDay: 1000}, People: []broker.Principal{
		{ID: "op", Roles: []broker.Role{broker.RoleOperator}}, {ID: "op2", Roles: []broker.Role{broker.RoleOperator}}, {ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}},
	}})
}

// TestRoles calls every route of the console with every role and compares the
// result with the table in docs/reference/console.md.
//
//ebb:invariant I6 A principal that has none of the required roles is refused
func TestRoles(t *testing.T) {
	t.Parallel()
	h := rolesFixture(t)
	browsers := map[string]*browser{}
	for _, who := range byRole {
		for _, id := range who {
			if id != "" {
				browsers[id] = h.as(id)
				newAuthenticator(t).register(browsers[id]).is(t, http.StatusSeeOther)
			}
		}
	}
	drafts := map[string]string{"op": h.drafted("op", onlyReads).ID, "op2": h.drafted("op2", onlyReads).ID}
	table := brokertest.RoleTable(t, "../../docs/reference/console.md", "console")
	known := map[string]bool{}
	for _, route := range h.console.Routes() {
		name := route.Method + " " + route.Path
		known[name] = true
		row := table[name]
		if row == nil {
			t.Errorf("%s is not in the table", name)
			continue
		}
		if roles, want := slices.Sorted(maps.Keys(row)), slices.Sorted(maps.Keys(byRole)); !slices.Equal(roles, want) {
			t.Errorf("%s: roles %v, want %v", name, roles, want)
		}
		if open := []string{"GET /", "GET /signin", "GET /events", "GET /worker.js", "POST /signout"}; slices.Contains(open, name) || strings.HasPrefix(route.Path, "/signin/") || strings.HasPrefix(route.Path, "/assets/") {
			for role, cell := range row { // the route does not depend on the role
				if cell != "yes" {
					t.Errorf("%s as %s: %s", name, role, cell)
				}
			}
			continue
		}
		for role, cell := range row {
			if !slices.Contains([]string{"yes", "no", "own", "group", "named", "other's", "lists", "lists own", "lists group"}, cell) {
				t.Errorf("%s: %q is no word of the table", name, cell)
			}
			who, other := byRole[role][0], byRole[role][1]
			// Operators differ only in the author of the draft.
			author := "op2"
			if cell == "own" {
				author = "op"
			}
			draft := ""
			if strings.HasPrefix(route.Path, "/policy/drafts/:id") {
				draft = drafts[author]
			}
			if got := browsers[who].calls(route.Method, route.Path, draft, strings.HasPrefix(cell, "lists")); got != (cell != "no") {
				t.Errorf("%s as %s: %v, the table says %s", name, role, got, cell)
			}
			if other == "" || role == "operator" && draft == "" {
				continue
			}
			if got := browsers[other].calls(route.Method, route.Path, draft, strings.HasPrefix(cell, "lists")); got != (cell == "yes" || cell == "lists") {
				t.Errorf("%s as another %s: %v, the table says %s", name, role, got, cell)
			}
		}
	}
	for name := range table {
		if !known[name] {
			t.Errorf("%s is in the table and does not exist", name)
		}
	}
}

// calls reports whether a person may call a route about new objects of the
// runner. lists: it counts only if the response contains them. draft: the draft
// of the route, if any.
func (b *browser) calls(method, path, draft string, lists bool) bool {
	h := b.h
	h.t.Helper()
	r := h.asked("orders:eu/1:write")
	task, err := h.Broker.Task(h.t.Context(), h.Principals[brokertest.Auditor], r.TaskID)
	if err != nil {
		h.t.Fatal(err)
	}
	lease := h.issued(task, 1, nil)[0]
	entries, err := h.Broker.EntryList(h.t.Context(), h.Principals[brokertest.Auditor], broker.EntryQuery{TaskID: task.ID, Limit: 1, Look: 10})
	if err != nil || len(entries.Entries) != 1 {
		h.t.Fatal(err)
	}
	entry := entries.Entries[0]
	if strings.Contains(path, "/snapshot/") {
		v := broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, Snapshot: "{}"}
		if _, err := h.Broker.Decide(h.t.Context(), h.Principals[brokertest.Approver], r.ID, v); err != nil {
			h.t.Fatal(err)
		}
	}
	if strings.HasSuffix(path, "/receipt") {
		if _, err := h.Broker.StopTask(h.t.Context(), h.Principals[brokertest.Runner], task.ID, "odd", 0); err != nil {
			h.t.Fatal(err)
		}
	}
	id := task.ID
	switch {
	case draft != "":
		id = draft
	case strings.HasPrefix(path, "/break-glass"):
		id = b.glass(path)
	case strings.HasPrefix(path, "/requests"), path == "/queue":
		id = r.ID
	case strings.HasPrefix(path, "/credentials"):
		id = lease
	case strings.HasPrefix(path, "/transcripts"):
		id = h.transcribed(task.ID, lease, nil, nil)
	case strings.HasPrefix(path, "/sandboxes"):
		id = "sbx_" + task.ID[4:]
	}
	at := strings.NewReplacer(":id", id, ":voter", brokertest.Approver, ":writer", entry.Writer, ":seq", strconv.FormatInt(entry.Seq, 10), ":number", "1").Replace(path)
	form := url.Values{}
	if method == http.MethodPost {
		form = url.Values{"nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], at)}, "choice": {"deny"}, "code": {"not_needed"}, "note": {"No."}, "reason": {"odd"}, "provider": {"orders"}, "session": {"none"}, "id": {"00"},
			"incident": {"INC-7"}, "plan": {b.cookies["__Host-ebb-glass"]}}
		if strings.HasPrefix(path, "/break-glass") {
			form.Set("reason", "nobody else is awake")
		}
	} else if lists && path != "/tasks" {
		at += "?task=" + task.ID
	}
	if strings.HasPrefix(path, "/batch") {
		of := []string{r.ID + ":" + r.Digest}
		if method == http.MethodPost {
			form["of[]"] = of
		} else {
			at += "?" + url.Values{"id": {r.ID}, "of[]": of}.Encode()
		}
	} else if strings.HasSuffix(path, "/challenge") {
		at += "?choice=approve&digest=" + r.Digest
	}
	a := b.do(method, at, form, nil)
	switch {
	case strings.Contains(a.body, "Your sign-in method cannot confirm a session"), strings.Contains(a.body, "You have no such passkey"), strings.Contains(a.body, "You have no such browser"), strings.Contains(a.body, "No policies were published under this number"), strings.Contains(a.body, "A session alone is not enough"): // for every caller
		return true
	case a.StatusCode == http.StatusForbidden, a.StatusCode == http.StatusNotFound, strings.HasSuffix(path, "/deny") && a.StatusCode != http.StatusSeeOther: // nothing waits for them
		return false
	case a.StatusCode == http.StatusUnauthorized, a.StatusCode == http.StatusSeeOther && a.Header.Get("Location") == "/signin":
		h.t.Errorf("%s %s: signed out", method, at)
		return false
	case lists:
		return a.StatusCode == http.StatusOK && strings.Contains(a.body, id)
	}
	return true
}

// glass creates a period of the approver, ended if one is reviewed, and adds a
// plan of theirs to b.
func (b *browser) glass(path string) string {
	h, ann := b.h, b.h.Principals[brokertest.Approver]
	h.t.Helper()
	if err := h.Broker.LeaveBreakGlass(h.t.Context(), ann); err != nil {
		h.t.Fatal(err)
	}
	plan, token, err := h.Broker.PlanBreakGlass(ann, "INC-7", "nobody else is awake")
	if err != nil {
		h.t.Fatal(err)
	}
	b.cookies["__Host-ebb-glass"] = token
	if !strings.Contains(path, ":id") {
		return ""
	}
	h.Clock.Add(time.Second)
	now := h.Clock.Now()
	h.as(brokertest.Approver)
	sessions, err := h.Store.Sessions(h.t.Context(), ann.ID)
	if err != nil || len(sessions) == 0 {
		h.t.Fatal(len(sessions), err)
	}
	g, err := h.Broker.BeginBreakGlass(h.t.Context(), ann, token, approval.BreakGlassProof{AuthAt: now, For: plan.ID, Session: sessions[0].ID, SessionBegan: now, SessionEnds: now.Add(time.Hour)})
	if err != nil {
		h.t.Fatal(err)
	}
	if strings.HasSuffix(path, "/review") {
		if err := h.Broker.LeaveBreakGlass(h.t.Context(), ann); err != nil {
			h.t.Fatal(err)
		}
	}
	return g.ID
}

// TestViewerSees: what a viewer may and may not see.
//
//ebb:invariant I9 A viewer does not see the agent's reason of a request
func TestViewerSees(t *testing.T) {
	t.Parallel()
	h := rolesFixture(t)
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Viewer)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Write to", r.Match, "Only approvers of this request", "you cannot decide this")
	for _, kept := range []string{"I need it", "<textarea", "/decide", "challenge"} {
		if strings.Contains(page.body, kept) {
			t.Errorf("the page of a viewer says %q", kept)
		}
	}
	h.as(brokertest.Approver).get("/requests/"+r.ID).is(t, http.StatusOK, "I need it")
	b.get("/queue").is(t, http.StatusOK, "Waiting (1)", "you cannot decide it")
	for _, path := range []string{"/credentials", "/tasks", "/tasks/" + r.TaskID, "/sandboxes/sbx_" + r.TaskID[4:]} {
		if page := b.get(path); page.StatusCode != http.StatusOK || strings.Contains(page.body, `href="/audit`) || strings.Contains(page.body, ">CSV<") {
			t.Errorf("%s leads to the record, or out: %d", path, page.StatusCode)
		}
	}
}

// TestViewerTakesNothingOut: two roles give the rights of both, and the viewer
// role gives no exports.
func TestViewerTakesNothingOut(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{People: []broker.Principal{{ID: "both", Roles: []broker.Role{broker.RoleViewer, broker.RoleRunner}}}})
	r := h.asked("orders:eu/1:write")
	b := h.as("both")
	b.get("/credentials").is(t, http.StatusOK)
	b.get("/credentials.csv").is(t, http.StatusForbidden)
	b.get("/credentials.csv?task="+r.TaskID).is(t, http.StatusNotFound)
	b.get("/audit.jsonl?task="+r.TaskID).is(t, http.StatusNotFound)
}

// TestViewerSeesNoOpenAnswers: a viewer does not see answers of a request that
// waits for a second person.
func TestViewerSeesNoOpenAnswers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Limits: broker.Limits{HighRiskQuorum: 2}})
	r := h.asked("orders:eu/**:write")
	v := broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}
	if out, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Approver], r.ID, v); err != nil || out.State != broker.RequestPending {
		t.Fatal(out.State, err)
	}
	b := h.as(brokertest.Viewer)
	if page := b.get("/requests/" + r.ID); strings.Contains(page.body, "</bdi> approved") || strings.Contains(page.body, brokertest.Approver+"<") {
		t.Error("a viewer is told who has said yes")
	}
	seen, err := h.Broker.Request(t.Context(), h.Principals[brokertest.Viewer], r.ID)
	if err != nil || len(seen.Votes) != 0 || seen.Reason.Len() != 0 {
		t.Errorf("%+v, %v", seen.Votes, err)
	}
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Second], r.ID, v); err != nil {
		t.Fatal(err)
	}
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "</bdi> approved")
	raw, err := json.Marshal(h.Principals[brokertest.Viewer])
	if err != nil || strings.Contains(string(raw), "Bounds") {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestLimitedInConsole: an approver with a limit sees why they may or may not
// decide. Requests beyond the limit are not counted as theirs.
//
//ebb:invariant I7 An approver whose limits do not cover all scopes of a request cannot decide any part of it
func TestLimitedInConsole(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	roles := broker.RoleGroups{broker.RoleApprover: {{Group: "approvers", Scopes: scopes.MustParseSet("orders:eu/1:*")}}, broker.RoleOperator: {{Group: "web"}}}
	h := o.fixture(t, func(c *oidc.Config) { c.Roles = roles })
	mine, other := h.asked("orders:eu/1:write"), h.asked("orders:eu/2:write")
	part := h.asked("orders:eu/1:write orders:eu/2:write")
	b := h.browser()
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	b.get("/settings").is(t, http.StatusOK, "operator", "May decide", "orders:eu/1:*")
	queue := b.get("/queue")
	queue.is(t, http.StatusOK, "Waiting for you (1)", mine.ID)
	if strings.Contains(queue.body, other.ID) || strings.Contains(queue.body, part.ID) {
		t.Error("what is not theirs waits for them")
	}
	b.get("/queue?view=all").is(t, http.StatusOK, "Waiting (3)", other.ID, part.ID, "you cannot decide it")
	b.get("/requests/"+mine.ID).is(t, http.StatusOK, "you are in approvers, which may decide orders:eu/1:*")
	page := b.get("/requests/" + mine.ID)
	for _, r := range []broker.Request{other, part} {
		a := b.get("/requests/" + r.ID)
		a.is(t, http.StatusOK, "you cannot decide this: you are in approvers, which may decide orders:eu/1:*, and the request exceeds that", "more than you may decide")
		if strings.Contains(a.body, "/decide") {
			t.Error("there is a form to decide it")
		}
		// The form of another request, sent to this one.
		at := "/requests/" + r.ID + "/decide"
		form := b.form(page, "narrow", url.Values{"nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], at)}, "digest": {r.Digest}, "scope": {"orders:eu/1:write"}, "minutes": {"1"}})
		b.do(http.MethodPost, at, form, nil).is(t, http.StatusForbidden)
	}
	// A role removed from the configuration is lost at once, also in a session
	// that began with it.
	delete(roles, broker.RoleApprover)
	b.choose(page, mine.ID, "deny", no).is(t, http.StatusForbidden)
	b.get("/settings").is(t, http.StatusOK, "operator")
	delete(roles, broker.RoleOperator)
	b.get("/tasks").is(t, http.StatusForbidden)
	roles[broker.RoleAuditor] = []broker.RoleGroup{{Group: "web"}} // a session never gains roles
	b.get("/audit").is(t, http.StatusForbidden)
}
