package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestHistory: the list of requests has every request that the visitor may see, with its
// outcome, who decided and how long it took, and finds them by each filter.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{People: []broker.Principal{
		{ID: "tom", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}, {ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}},
	}})
	denied, granted, waits := h.asked("orders:eu/1:write"), h.asked("orders:eu/2:write"), h.asked("orders:eu/3:write")
	ann, tom, eve := h.as(brokertest.Approver), h.as("tom"), h.as(brokertest.Auditor)
	h.Clock.Add(40 * time.Second)
	ann.choose(ann.get("/requests/"+denied.ID), denied.ID, "deny", no).is(t, http.StatusSeeOther)
	tom.choose(tom.get("/requests/"+granted.ID), granted.ID, "approve", url.Values{"target": {granted.Target()}}).is(t, http.StatusSeeOther)
	all := []string{denied.ID, granted.ID, waits.ID}
	for query, want := range map[string][]string{
		"": all, "?state=denied": {denied.ID}, "?state=approved": {granted.ID}, "?state=pending": {waits.ID}, "?state=expired": nil,
		"?by=" + brokertest.Approver: {denied.ID}, "?by=tom": {granted.ID}, "?by=else": nil, "?task=" + denied.TaskID: {denied.ID},
		"?owner=" + url.QueryEscape(denied.Owner): all, "?owner=else": nil, "?risk=" + string(denied.Level()): all, "?rule=none": nil,
		"?from=1990-01-01T00:00": all, "?to=1990-01-01T00:00": nil,
	} {
		for _, b := range []*browser{eve, ann} {
			a := b.get("/requests" + query)
			a.is(t, http.StatusOK, "<h1>Requests</h1>")
			for _, id := range all {
				if has, wants := strings.Contains(a.body, `href="/requests/`+id+`"`), strings.Contains(strings.Join(want, " "), id); has != wants {
					t.Errorf("%q: request %s is listed: %t, want %t", query, id, has, wants)
				}
			}
		}
	}
	eve.get("/requests?state=denied").is(t, http.StatusOK, "denied", "too broad", brokertest.Approver, "after 40 s", "eu/1")
	eve.get("/requests?state=approved").is(t, http.StatusOK, "approved", "orders:eu/2:write for", "tom")
	ann.get("/requests").is(t, http.StatusOK, `href="/requests?by=`+brokertest.Approver+`"`, "My decisions")
	if a := eve.get("/requests"); strings.Contains(a.body, "My decisions") {
		t.Error("an auditor has no decisions")
	}
	for _, who := range []string{"out", brokertest.Runner2} {
		h.as(who).get("/requests").is(t, http.StatusOK, "No request is visible to you yet.")
		h.as(who).get("/requests?state=denied").is(t, http.StatusOK, "No request matches the filter.", `<a class="reach" href="/requests?show=all">Show all</a>`)
	}
	for _, query := range []string{"?state=x", "?risk=x", "?x=1", "?by=a&by=b", "?by=%00", "?after=AAAA", "?after=x&before=y"} {
		eve.get("/requests"+query).is(t, http.StatusUnprocessableEntity, `<form class="filter`)
	}
}

// TestHistoryPages: every request is on one page, in both directions.
func TestHistoryPages(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	const n = 53 // more than one page
	made := map[string]bool{}
	for range n {
		made[h.asked("orders:eu/1:write").ID] = true
	}
	b := h.as(brokertest.Auditor)
	first := b.get("/requests")
	rows := reviews.FindAllStringSubmatch(first.body, -1)
	next := linkTo(nextLink, first)
	if len(rows) != 50 || next == "" {
		t.Fatalf("%d rows, next %q", len(rows), next)
	}
	second := b.get(next)
	rows = append(rows, reviews.FindAllStringSubmatch(second.body, -1)...)
	for _, m := range rows {
		delete(made, m[1])
	}
	if len(rows) != n || len(made) != 0 {
		t.Errorf("%d rows, %d missing", len(rows), len(made))
	}
	if a := b.get(linkTo(prevLink, second)); len(reviews.FindAllString(a.body, -1)) != 50 {
		t.Errorf("back: %s", a.body)
	}
}
