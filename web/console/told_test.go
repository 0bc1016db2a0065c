package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/scopes"
)

// keepNotices plans messages about a request.
func (h *fixture) keepNotices(id string, to ...notify.Recipient) {
	h.t.Helper()
	var items []notify.Item
	for _, r := range to {
		items = append(items, notify.Item{Recipient: r, SendAt: h.Clock.Now(), Until: h.Clock.Now().Add(time.Hour), Notice: notify.Notice{Event: notify.Waiting, Subject: id}})
	}
	rs, err := h.Store.Unread(h.t.Context(), []string{"request."}, 1000)
	if err != nil || len(rs) != 1 {
		h.t.Fatal(len(rs), err)
	}
	if err := h.Store.Keep(h.t.Context(), notify.Plan{Reading: rs[0], Items: items, Now: h.Clock.Now(), Most: 100, Window: time.Minute}); err != nil {
		h.t.Fatal(err)
	}
}

// The page of a request has the number of other people who can decide it, and the channels that
// were notified, with the result. It has no names and no addresses.
func TestToldOnThePage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{People: []broker.Principal{{ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}}})
	r := h.asked("orders:eu/1:write")
	know := func(id string, at time.Time, roles []string, groups ...string) {
		t.Helper()
		if err := h.Store.Know(t.Context(), people.Reach{Person: id, Mail: id + "@secret.test", Roles: roles, Groups: groups, SeenAt: at, Preferences: people.DefaultPreferences()}); err != nil {
			t.Fatal(err)
		}
	}
	now, approver := h.Clock.Now(), []string{"approver"}
	know("sso:cy", now, approver, "approvers")
	know("BOB", now, approver, "approvers") // the configured principal, by another spelling
	know("sso:left", now.Add(-31*24*time.Hour), approver, "approvers")
	know("sso:other", now, approver, "others")
	know("sso:reader", now, []string{"viewer"}, "approvers")
	know(r.Owner, now, approver, "approvers")
	h.bounds = map[string][]scopes.Set{"sso:bounded": {scopes.MustParseSet("mail:**:read")}}
	know("sso:bounded", now, approver, "approvers") // may decide less
	ann := h.as(brokertest.Approver)
	ann.get("/requests/"+r.ID).is(t, http.StatusOK, "Approvers: group approvers. ebb knows 2 other people who can decide this.", "Notified: nobody.")
	h.as(brokertest.Auditor).get("/requests/"+r.ID).is(t, http.StatusOK, "ebb knows 3 people who can decide this.")

	h.keepNotices(r.ID, notify.Recipient{Channel: "ops"}, notify.Recipient{Channel: "pager"}, notify.Recipient{Channel: "mail", Person: "sso:cy", Address: "cy@secret.test"}, notify.Recipient{Channel: "mail", Person: "BOB", Address: "bob@secret.test"}, notify.Recipient{Channel: "late"})
	for channel, state := range map[string]notify.State{"ops": notify.StateSent, "pager": notify.StateFailed, "mail": notify.StateSent} {
		ms, err := h.Store.TakeMessages(t.Context(), channel, h.Clock.Now(), h.Clock.Now().Add(time.Minute), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if err := h.Store.SettleMessage(t.Context(), notify.Outcome{ID: m.ID, Fence: m.Fence, State: state, At: h.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.Clock.Add(2 * time.Minute)
	page := ann.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Notified: late not sent yet; mail to 2 people 2 min ago; ops 2 min ago; pager failed.")
	// A word of its own: the page has random base64.
	if hidden := regexp.MustCompile(`secret\.test|sso:cy|(?:^|[^\w+/=-])BOB(?:[^\w+/=-]|$)`).FindString(page.body); hidden != "" {
		t.Errorf("the page names %s", hidden)
	}
	if page := h.as(brokertest.Viewer).get("/requests/" + r.ID); page.StatusCode != http.StatusOK || strings.Contains(page.body, "Notified:") || strings.Contains(page.body, "ebb knows") {
		t.Errorf("a viewer: %d %s", page.StatusCode, page.body)
	}
	h.as("out").get("/requests/"+r.ID).is(t, http.StatusNotFound)
	ann.choose(ann.get("/requests/"+r.ID), r.ID, "deny", no).is(t, http.StatusSeeOther)
	page = ann.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Notified: late not sent yet; mail to 2 people 2 min ago")
	if strings.Contains(page.body, "ebb knows") {
		t.Error("the number of approvers of a decided request is shown")
	}
}
