package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// tooMuch is a task that requested approval 14 times and has a credential.
func (h *fixture) tooMuch() (*brokertest.Sandbox, broker.Token) {
	h.t.Helper()
	s := h.Open(h.t, brokertest.Spec())
	tok, err := s.Ask(h.t, "orders:eu/1:read")
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range 14 {
		if _, err := s.AskDeferred(h.t, fmt.Sprintf("orders:eu/%d:write", i)); err == nil {
			h.t.Fatal("nobody was asked")
		}
	}
	return s, tok
}

// Acceptance check 25: 14 requests are one card. "Deny all" needs a reason,
// once. "Stop task" revokes, and the lists show it.
func TestOneCardForWhatAsksTooMuch(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Limits: broker.Limits{Asks: 10}})
	s, tok := h.tooMuch()
	b := h.as(brokertest.Approver)
	deny, stop := "/tasks/"+s.Task.ID+"/deny", "/tasks/"+s.Task.ID+"/stop"
	page := b.get("/queue")
	page.is(t, http.StatusOK, "is paused", "Paused", "3 wait", "ebb paused it", "Show 3", "Deny all 3", "Stop task and revoke all")
	if strings.Count(page.body, `class="card"`) != 1 || reviews.MatchString(page.body) {
		t.Errorf("more than one card: %s", page.body)
	}
	b.get("/queue?risk=low").is(t, http.StatusOK, "is paused", "Deny all 3") // a filter hides no task that floods
	b.get("/queue?task="+s.Task.ID).is(t, http.StatusOK, "Waiting for you (3)", "Review")
	h.Clock.Add(11 * time.Minute) // the card states the count that caused the pause, also later
	b = h.as(brokertest.Approver)
	page = b.get("/queue")
	page.is(t, http.StatusOK, "it asked people more than 10 times in 10 minutes", "Show 3")
	a := b.send(page, deny, url.Values{"note": {strings.Repeat("é", 501)}})
	a.is(t, http.StatusUnprocessableEntity, `id="code-problem"`, `id="note-problem"`, "<details class=\"wide\" open>", "autofocus")
	if h.again(h.waitingOf(s.Task.ID)[0].ID).State != broker.RequestPending {
		t.Fatal("denied without a reason")
	}
	form := b.fill(a, deny, no)
	b.do(http.MethodPost, deny, form, nil).is(t, http.StatusSeeOther)
	b.do(http.MethodPost, deny, form, nil).is(t, http.StatusConflict) // the form was already sent
	rs, err := h.Broker.Requests(t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || len(rs) != 3 {
		t.Fatal(len(rs), err)
	}
	for _, r := range rs {
		if r.State != broker.RequestDenied || r.Code != broker.TooBroad || len(r.Votes) != 1 || r.Votes[0].By != brokertest.Approver {
			t.Errorf("%+v", r)
		}
	}
	page = b.get("/queue")
	page.is(t, http.StatusOK, "0 wait", "Stop task and revoke all")
	b.send(page, stop, url.Values{"reason": {"asks too much"}}).is(t, http.StatusSeeOther)
	b.get("/queue").is(t, http.StatusOK, "No requests are waiting for you")
	if h.Active(t, tok.Token.Reveal()) {
		t.Error("a token outlived the stop")
	}
	h.as(brokertest.Auditor).get("/credentials?task="+s.Task.ID).is(t, http.StatusOK, "revoked")
	h.as(brokertest.Auditor).get("/tasks/"+s.Task.ID).is(t, http.StatusOK, "asks too much", "request.held")
}

func (h *fixture) waitingOf(task string) []broker.Request {
	h.t.Helper()
	rs, err := h.Broker.Requests(h.t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: task, State: broker.RequestPending})
	if err != nil || len(rs) == 0 {
		h.t.Fatal(len(rs), err)
	}
	return rs
}

// People who may not decide a task's requests see no forms on its card and
// cannot send them.
func TestCardIsForThoseWhoDecide(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Limits: broker.Limits{Asks: 10}})
	s, _ := h.tooMuch()
	deny := "/tasks/" + s.Task.ID + "/deny"
	mine := h.as(brokertest.Approver)
	form := mine.fill(mine.get("/queue"), deny, no)
	for _, who := range []string{brokertest.Auditor, brokertest.Runner, brokertest.Runner2} {
		b := h.as(who)
		page := b.get("/queue")
		if strings.Contains(page.body, deny) || who == brokertest.Runner2 && strings.Contains(page.body, s.Task.ID) {
			t.Errorf("%s is shown what is not for them", who)
		}
		if a := b.do(http.MethodPost, deny, form, nil); a.StatusCode != http.StatusConflict { // the nonce of another session
			t.Errorf("%s: %d", who, a.StatusCode)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a script":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "cors") },
		"another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		if a := mine.do(http.MethodPost, deny, form, change); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	if len(h.waitingOf(s.Task.ID)) != 3 {
		t.Error("denied")
	}
	// Its runner resumes it, and the requests are rows again.
	run := h.as(brokertest.Runner)
	page := run.get("/tasks/" + s.Task.ID)
	page.is(t, http.StatusOK, "ebb paused it: it requested approval too often", "Resume")
	if strings.Contains(h.as(brokertest.Approver).get("/tasks/"+s.Task.ID).body, "Resume the task") {
		t.Error("an approver is offered to resume it")
	}
	run.send(page, "/tasks/"+s.Task.ID+"/resume", nil).is(t, http.StatusSeeOther)
	mine.get("/queue").is(t, http.StatusOK, "Waiting for you (3)", "Throttled", "ebb told it to wait")
}

// Acceptance check 26: the timeline shows which grant covered a credential that
// needed no new approval.
func TestTimelineSaysCovered(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, s := h.asks("orders:eu/*:write", "x", brokertest.Spec())
	b := h.as(brokertest.Approver)
	b.choose(b.get("/requests/"+r.ID), r.ID, "approve", url.Values{"target": {"eu/*"}}).is(t, http.StatusSeeOther)
	if _, err := s.Ask(t, "orders:eu/1:write"); err != nil {
		t.Fatal(err)
	}
	b.get("/queue").is(t, http.StatusOK, "No requests are waiting for you")
	h.as(brokertest.Auditor).get("/tasks/"+s.Task.ID).is(t, http.StatusOK, "covered by an earlier grant, without a new approval:", "/requests/"+r.ID)
}
