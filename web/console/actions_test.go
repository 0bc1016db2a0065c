package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// The page of a request shows the newest actions in its task in a closed list, with times in the
// visitor's zone and with invisible characters as codes. Readers without the agent's text get none.
func TestActionsOnThePage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	tok, err := s.Ask(t, "orders:eu/3:read")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AskDeferred(t, "orders:eu/1:write"); err == nil {
		t.Fatal("nobody was asked")
	}
	rs, err := h.Broker.Requests(t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || len(rs) != 1 {
		t.Fatal(len(rs), err)
	}
	r := rs[0]
	h.serial++
	e := h.Broker.NewEntry(audit.EgressCompleted, r.Sandbox, map[string]any{"method": "GET", "host": "api.test", "path": "/\u202e<script>x</script>", "status": 200})
	e.TaskID, e.LeaseID = r.TaskID, tok.LeaseID
	if err := h.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{e}}); err != nil {
		t.Fatal(err)
	}
	e = h.Broker.NewEntry(audit.LeaseIssued, r.Sandbox, map[string]any{"scope": "orders:eu/9:read", "exp": "2030-01-02T23:30:00Z"})
	e.TaskID = r.TaskID
	if err := h.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{e}}); err != nil {
		t.Fatal(err)
	}
	b := h.as(brokertest.Approver)
	b.cookies[session.CookieZone] = "Europe/Berlin"
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "got a credential for orders:eu/9:read, until 3 Jan 2030 00:30 CET", "<summary>Newest actions in the task</summary>", "the sandbox enrolled with enroll</bdi>", "GET api.test/[U&#43;202E]&lt;script&gt;", "was answered with status 200")
	for _, who := range []string{brokertest.Auditor, brokertest.Operator} { // the same sentence in the audit log
		reader := h.as(who)
		reader.cookies[session.CookieZone] = "Europe/Berlin"
		log := reader.get("/audit?task=" + r.TaskID)
		log.is(t, http.StatusOK, "got a credential for orders:eu/9:read, until 3 Jan 2030 00:30 CET")
		reader.get(linkTo(regexp.MustCompile(`<a href="(/audit/[^"]+)"><time`), log)).is(t, http.StatusOK, "until 3 Jan 2030 00:30 CET")
	}
	if strings.Contains(page.body, "\u202e") || strings.Contains(page.body, "<script>x") || strings.Contains(page.body, "egress.completed") {
		t.Error(page.body)
	}
	if at, form := strings.Index(page.body, "Newest actions"), strings.LastIndex(page.body, `<section class="decide`); at < form {
		t.Errorf("the actions are before the decision: %d, %d", at, form)
	}
	for _, who := range []string{brokertest.Viewer, brokertest.Runner} {
		if page := h.as(who).get("/requests/" + r.ID); page.StatusCode != http.StatusOK || who == brokertest.Viewer && strings.Contains(page.body, "Newest actions") {
			t.Errorf("%s: %d %s", who, page.StatusCode, page.body)
		}
	}
}
