package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Acceptance check 14: changes since the page was drawn are shown, and nothing
// is granted.
//
//ebb:invariant I7 ebb computes the facts again before an approval counts, and refuses the approval if they have changed
func TestFactsChange(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, s := h.asks("orders:eu/1:write", "x", brokertest.Spec())
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	if _, err := h.Broker.TaintTask(t.Context(), h.Principals[brokertest.Runner], r.TaskID, []string{"issue-comments"}); err != nil {
		t.Fatal(err)
	}
	// A new visitor sees the change at once and can only deny.
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "Approving is off", "issue-comments", "Changes since the request")
	a := b.choose(page, r.ID, "approve", typedTarget)
	a.is(t, http.StatusConflict, "The facts have changed", "Nothing was granted", "Untrusted content read", "issue-comments", "<table")
	if got := h.again(r.ID); got.State != broker.RequestWithdrawn || len(got.Votes) != 0 {
		t.Errorf("%+v", got)
	}
	_ = s
}

// Acceptance check 17.
//
//ebb:invariant I7 ebb computes the facts again before an approval counts, and refuses the approval if they have changed
func TestPolicyChanges(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	set, err := policy.Load(map[string][]byte{"a.cedar": []byte(`@id("other") @ask("approvers") @max_ttl("15m") @why("Because.") permit (principal, action, resource);`)})
	if err != nil {
		t.Fatal(err)
	}
	h.Config.Policy.Replace(set)
	b.choose(page, r.ID, "approve", typedTarget).is(t, http.StatusConflict, "Policy version", "The facts have changed")
	if got := h.again(r.ID); got.State != broker.RequestWithdrawn {
		t.Error(got.State)
	}
}

// Acceptance check 15, without passkeys: a form is valid once, for its choice,
// person and request.
//
//ebb:invariant I7 A console form is valid only for the page, session and path for which it was issued
func TestFormsAreBound(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, other := h.asked("orders:eu/1:write"), h.asked("orders:eu/2:write")
	ann, bob := h.as(brokertest.Approver), h.as(brokertest.Second)
	page := ann.get("/requests/" + r.ID)
	mine := ann.form(page, "approve", nil)
	theirs := ann.form(ann.get("/requests/"+other.ID), "approve", nil)
	mine.Set("target", "eu/1")
	path := "/requests/" + r.ID + "/decide"
	for name, change := range map[string]func(url.Values){
		"what another request showed": func(f url.Values) { f.Set("seen", theirs.Get("seen")) },
		"the digest of another":       func(f url.Values) { f.Set("digest", theirs.Get("digest")) },
		"no digest":                   func(f url.Values) { f.Del("digest") },
		"nothing seen":                func(f url.Values) { f.Del("seen") },
		"garbage seen":                func(f url.Values) { f.Set("seen", "AAAA.BBBB") },
		"seen, changed":               func(f url.Values) { f.Set("seen", "A"+f.Get("seen")) },
		"no choice":                   func(f url.Values) { f.Del("choice") },
		"another choice":              func(f url.Values) { f.Set("choice", "grant") },
		"no nonce":                    func(f url.Values) { f.Del("nonce") },
		"the nonce of another":        func(f url.Values) { f.Set("nonce", theirs.Get("nonce")) },
	} {
		form := ann.form(ann.get("/requests/"+r.ID), "approve", typedTarget)
		change(form)
		if a := ann.do(http.MethodPost, path, form, nil); a.StatusCode != http.StatusUnprocessableEntity && a.StatusCode != http.StatusConflict {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	// Another person's form, unchanged, and then with the sender's own nonce.
	bob.do(http.MethodPost, path, mine, nil).is(t, http.StatusConflict)
	own := bob.form(bob.get("/requests/"+r.ID), "approve", typedTarget)
	own.Set("seen", mine.Get("seen"))
	bob.do(http.MethodPost, path, own, nil).is(t, http.StatusUnprocessableEntity)
	if got := h.again(r.ID); got.State != broker.RequestPending {
		t.Fatal(got.State)
	}
	ann.do(http.MethodPost, path, mine, nil).is(t, http.StatusSeeOther)
	ann.do(http.MethodPost, path, mine, nil).is(t, http.StatusConflict, "You approved this ")
	if got := h.again(r.ID); len(got.Votes) != 1 {
		t.Error(got.Votes)
	}
}

// Acceptance check 18: of two simultaneous decisions one wins, and the other
// person sees by whom and when.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	for range 4 {
		r := h.asked("orders:eu/1:write")
		ann, bob := h.as(brokertest.Approver), h.as(brokertest.Second)
		forms := map[*browser]url.Values{ann: ann.form(ann.get("/requests/"+r.ID), "approve", typedTarget), bob: bob.form(bob.get("/requests/"+r.ID), "deny", no)}
		var wg sync.WaitGroup
		var mu sync.Mutex
		answers := map[*browser]answer{}
		for b, form := range forms {
			wg.Go(func() {
				a := b.do(http.MethodPost, "/requests/"+r.ID+"/decide", form, nil)
				mu.Lock()
				answers[b] = a
				mu.Unlock()
			})
		}
		wg.Wait()
		winner, loser, says := ann, bob, "ann approved this "
		if answers[bob].StatusCode == http.StatusSeeOther {
			winner, loser, says = bob, ann, "bob denied this "
		}
		answers[winner].is(t, http.StatusSeeOther)
		answers[loser].is(t, http.StatusConflict, "was already ", says)
		if got := h.again(r.ID); len(got.Votes) != 1 {
			t.Errorf("%d votes", len(got.Votes))
		}
	}
}

// Acceptance check 19: people cannot decide requests of their own task with any
// form.
//
//ebb:invariant I7 An approver cannot decide requests of a task that they own or run
func TestOwnTask(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Owner = "Ann"
	r, _ := h.asks("orders:eu/1:write", "x", spec)
	ann, bob := h.as(brokertest.Approver), h.as(brokertest.Second)
	ann.get("/queue").is(t, http.StatusOK, "No requests are waiting for you")
	ann.get("/queue?view=all").is(t, http.StatusOK, r.Match, "you cannot decide it")
	page := ann.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "You cannot decide requests of your own task")
	if strings.Contains(page.body, "/decide") {
		t.Error("there is a form")
	}
	form := bob.form(bob.get("/requests/"+r.ID), "approve", typedTarget)
	for _, choice := range []string{"approve", "narrow", "deny"} {
		form.Set("choice", choice)
		ann.do(http.MethodPost, "/requests/"+r.ID+"/decide", form, nil).is(t, http.StatusForbidden, "own task")
	}
	// Neither can roles that only read.
	aud := h.as(brokertest.Auditor)
	if page := aud.get("/requests/" + r.ID); strings.Contains(page.body, "/decide") {
		t.Error("an auditor has a form")
	}
	aud.do(http.MethodPost, "/requests/"+r.ID+"/decide", form, nil).is(t, http.StatusForbidden)
}

// two is a policy that requires two approvers.
const two = `@id("two") @ask("approvers") @quorum("2") @max_ttl("15m") @why("Two people.") permit (principal, action, resource);`

// Acceptance check 20, second half: the second approver does not see the first
// one's answer, nor that there is one.
func TestSecondPerson(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Policies: map[string][]byte{"two.cedar": []byte(two)}})
	r := h.asked("orders:eu/1:write")
	ann, bob := h.as(brokertest.Approver), h.as(brokertest.Second)
	before := bob.get("/requests/" + r.ID)
	before.is(t, http.StatusOK, "2 different people")
	ann.choose(ann.get("/requests/"+r.ID), r.ID, "approve", typedTarget).is(t, http.StatusSeeOther)
	ann.get("/requests/"+r.ID).is(t, http.StatusOK, "waits for another person", "ann")
	after := bob.get("/requests/" + r.ID)
	if clean(before.body) != clean(after.body) || regexp.MustCompile(`\bann\b`).MatchString(agentBox.ReplaceAllString(after.body, "")) {
		t.Errorf("the second person's page tells of the first: %s", after.body)
	}
	// The page that the first approver saw does not reveal it either.
	bob.get("/requests/"+r.ID+"/snapshot/ann").is(t, http.StatusNotFound)
	if got := h.again(r.ID); got.State != broker.RequestPending {
		t.Fatal(got.State)
	}
	bob.choose(after, r.ID, "approve", typedTarget).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.State != broker.RequestApproved {
		t.Error(got.State)
	}
}

var typedTarget = url.Values{"target": {"eu/1"}}

// clean returns a page without the values that differ each time.
func clean(body string) string { return hiddenInput.ReplaceAllString(body, "") }

// Acceptance check 23: neither scripts nor links can decide.
//
//ebb:invariant I7 A console form is accepted only if the browser sent it from a page of the console
func TestDecideOnlyByForm(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	path := "/requests/" + r.ID + "/decide"
	b.get(path).is(t, http.StatusMethodNotAllowed)
	for _, choice := range []string{"approve", "deny"} {
		form := b.form(b.get("/requests/"+r.ID), choice, no)
		for name, value := range map[string]string{"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.test"} {
			b.do(http.MethodPost, path, form, func(r *http.Request) { r.Header.Set(name, value) }).is(t, http.StatusForbidden)
		}
		b.do(http.MethodPost, path, form, func(r *http.Request) { dropCookie(r, "__Host-ebb-act") }).is(t, http.StatusForbidden)
	}
	if got := h.again(r.ID); got.State != broker.RequestPending {
		t.Error(got.State)
	}
}

// Acceptance check 24: a denial tells the agent which scope would be allowed
// and when to retry. The same request in other words does not return to the
// queue.
func TestDeniedStaysDenied(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, s := h.asks("orders:eu/1:write orders:eu/1:read", "x", brokertest.Spec())
	b := h.as(brokertest.Approver)
	b.choose(b.get("/requests/"+r.ID), r.ID, "deny", no).is(t, http.StatusSeeOther)
	_, err := s.AskDeferred(t, "orders:eu/1:write orders:eu/1:read")
	e := broker.AsError(err)
	if e == nil || e.Kind != broker.Denied || e.Advice == nil || e.Advice.Code != broker.TooBroad || e.Advice.Note != "A branch is enough." ||
		e.Advice.WouldAllow.String() != "orders:eu/1:read" || e.Advice.RetryAfter <= 0 || !e.Advice.DoNotRetrySame {
		t.Errorf("%+v", e)
	}
	b.get("/queue").is(t, http.StatusOK, "No requests are waiting for you")
}

// Acceptance check 27: a request without an answer is denied, and a late
// approval has no effect.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	h.Clock.Add(25 * time.Minute)
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "5 min left")
	h.Clock.Add(5 * time.Minute)
	b.choose(page, r.ID, "approve", typedTarget).is(t, http.StatusConflict, "no_answer")
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "no_answer")
	b.get("/queue").is(t, http.StatusOK, "No requests are waiting for you")
	if got := h.again(r.ID); len(got.Votes) != 0 || got.State == broker.RequestApproved {
		t.Errorf("%+v", got)
	}
}

// Denying a request as suspicious stops its task.
func TestSuspicious(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	b.choose(b.get("/requests/"+r.ID), r.ID, "deny", url.Values{"code": {"suspicious"}, "note": {"Stop."}}).is(t, http.StatusSeeOther)
	task, err := h.Broker.Task(t.Context(), h.Principals[brokertest.Auditor], r.TaskID)
	if err != nil || task.State != broker.TaskClosed || task.Cause != broker.CauseSuspicious {
		t.Errorf("%+v, %v", task, err)
	}
}
