package console_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestStateOfOpenPage: a page that is open reads the state of its request, and
// shows the outcome when another person has decided. The page of a decided request
// links to the next one that waits.
func TestStateOfOpenPage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{People: []broker.Principal{{ID: "tom", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}}})
	r, next := h.asked("orders:eu/1:write"), h.asked("orders:eu/2:write")
	at := "/requests/" + r.ID
	one, other := h.as(brokertest.Approver), h.as("tom")
	one.get(at).is(t, http.StatusOK, `data-decided="`+at+`/state"`)
	one.get(at+"/state").is(t, http.StatusOK, `{"text":""}`)
	h.as(brokertest.Runner2).get(at+"/state").is(t, http.StatusNotFound)
	other.choose(other.get(at), r.ID, "deny", no).is(t, http.StatusSeeOther)
	one.get(at+"/state").is(t, http.StatusOK, "tom denied this ", " ago: too broad.")
	other.get(at).is(t, http.StatusOK, `href="/requests/`+next.ID+`"`, "Next (1 left)")
}

// TestOpenPageIsNoUse: requests that an open page sends by itself do not extend the session.
func TestOpenPageIsNoUse(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	op := h.as(brokertest.Operator)
	open := map[string]*browser{"/requests/" + r.ID + "/state": b, "/credentials/tail": op, "/tasks/" + r.TaskID + "/tail": op}
	for range 2 {
		h.Clock.Add(14 * time.Minute)
		for at, b := range open {
			b.get(at).is(t, http.StatusOK)
		}
	}
	h.Clock.Add(14 * time.Minute) // 42 minutes after the last use
	for at, b := range open {
		b.get(at).is(t, http.StatusUnauthorized)
		b.get("/queue").is(t, http.StatusSeeOther)
	}
}
