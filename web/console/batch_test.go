package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// few is a fixture with n waiting requests of one task that one answer can
// approve.
func few(t *testing.T, n int) (*fixture, *brokertest.Sandbox, []broker.Request) {
	t.Helper()
	h, _ := ofEach(t, proof.Friction{})
	spec := brokertest.Spec()
	spec.Ceiling, spec.Caps.OpenRequests = scopes.MustParseSet("plain:**:* orders:**:*"), 10
	s := h.Open(t, spec)
	for i := range n {
		if _, err := s.AskDeferred(t, "plain:t/"+string(rune('a'+i))+":read"); broker.AsError(err).Kind != broker.Pending {
			t.Fatal(err)
		}
		h.Clock.Add(time.Millisecond)
	}
	return h, s, h.waitingOf(s.Task.ID)
}

func idsOf(rs []broker.Request) url.Values {
	q := url.Values{}
	for _, r := range rs {
		q.Add("id", r.ID)
	}
	return q
}

// multi returns the form of the page, with repeated fields.
func (b *browser) multi(page answer) url.Values { return b.fill(page, "/batch", nil) }

// F7: a few low-risk requests of one task get one answer. Each stores the page
// shown and the whole list.
func TestTogether(t *testing.T) {
	t.Parallel()
	h, s, rs := few(t, 3)
	b := h.as(brokertest.Approver)
	q := b.get("/queue")
	q.is(t, http.StatusOK, "Review 3 of this task")
	page := b.get("/batch?" + idsOf(rs).Encode())
	page.is(t, http.StatusOK, "3 requests of one task", rs[0].Match, rs[1].Match, rs[2].Match, "Agent text of request 3, not checked", "Low risk: one click")
	b.do(http.MethodPost, "/batch", b.multi(page), nil).is(t, http.StatusSeeOther)
	got, err := h.Store.Requests(t.Context(), broker.RequestFilter{TaskID: s.Task.ID, Snapshots: true})
	if err != nil || len(got) != 3 {
		t.Fatal(len(got), err)
	}
	for _, r := range got {
		if r.State != broker.RequestApproved || len(r.Votes) != 1 || !strings.Contains(r.Votes[0].Snapshot, r.ID) {
			t.Errorf("%+v", r)
		}
		together := 0
		for e, err := range h.Store.Entries(t.Context(), broker.EntryFilter{RequestID: r.ID, Kind: "request.voted"}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range got {
				together += strings.Count(string(e.Data), o.ID)
			}
		}
		if together != 3 {
			t.Errorf("the record names %d of 3", together)
		}
	}
	b.get("/queue").is(t, http.StatusOK, "Waiting for you (3)") // the requests of the other tasks
}

// F7: no form can decide other combinations by one answer.
//
//ebb:invariant I7 A batch decision contains only different requests of one task at one provider
//ebb:invariant I7 A batch decision contains no request of high risk
//ebb:invariant I7 A batch decision covers exactly the requests and facts that its page showed
func TestBatchRefuses(t *testing.T) {
	t.Parallel()
	h, s, rs := few(t, 6)
	b := h.as(brokertest.Approver)
	for _, scope := range []string{"orders:eu/1:write", "orders:eu/2:write"} {
		if _, err := s.AskDeferred(t, scope); broker.AsError(err).Kind != broker.Pending {
			t.Fatal(err)
		}
	}
	high := slices.DeleteFunc(h.waitingOf(s.Task.ID), func(r broker.Request) bool { return r.Provider != "orders" })
	everybody, _ := h.Broker.Requests(t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{Provider: "plain"})
	other := everybody[slices.IndexFunc(everybody, func(r broker.Request) bool { return r.TaskID != s.Task.ID })]
	for name, list := range map[string][]broker.Request{
		"six":           rs,
		"one":           rs[:1],
		"none":          nil,
		"twice":         {rs[0], rs[1], rs[0]},
		"another task":  {rs[0], other},
		"two providers": {rs[0], high[0]},
		"high":          high,
	} {
		if a := b.get("/batch?" + idsOf(list).Encode()); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is shown: %d", name, a.StatusCode)
		}
		form := b.multi(b.get("/batch?" + idsOf(rs[:2]).Encode()))
		form["id[]"], form["digest[]"], form["seen[]"] = nil, nil, nil
		for _, r := range list {
			one := b.form(b.get("/requests/"+r.ID), "approve", nil)
			form["id[]"], form["digest[]"], form["seen[]"] = append(form["id[]"], r.ID), append(form["digest[]"], r.Digest), append(form["seen[]"], one.Get("seen"))
		}
		if a := b.do(http.MethodPost, "/batch", form, nil); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is taken: %d", name, a.StatusCode)
		}
	}
	for name, change := range map[string]func(url.Values){
		"no digest":         func(f url.Values) { f.Del("digest[]") },
		"one digest less":   func(f url.Values) { f["digest[]"] = f["digest[]"][:1] },
		"digests swapped":   func(f url.Values) { slices.Reverse(f["digest[]"]) },
		"ids swapped":       func(f url.Values) { slices.Reverse(f["id[]"]) },
		"nothing seen":      func(f url.Values) { f.Del("seen[]") },
		"seen of another":   func(f url.Values) { f["seen[]"][1] = f["seen[]"][0] },
		"no nonce":          func(f url.Values) { f.Del("nonce") },
		"an unknown one":    func(f url.Values) { f["id[]"][0] = "req_" + strings.Repeat("0", 32) },
		"a single decision": func(f url.Values) { f.Set("id[]", rs[0].ID) },
	} {
		form := b.multi(b.get("/batch?" + idsOf(rs[:2]).Encode()))
		change(form)
		if a := b.do(http.MethodPost, "/batch", form, nil); a.StatusCode < 400 {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	// The task's owner, its runner and an auditor cannot decide with any form.
	form := b.multi(b.get("/batch?" + idsOf(rs[:2]).Encode()))
	q := idsOf(rs[:2])
	q["digest"] = []string{rs[0].Digest, rs[1].Digest}
	aud := h.as(brokertest.Auditor)
	newAuthenticator(t).register(aud).is(t, http.StatusSeeOther)
	aud.get("/batch/challenge?"+q.Encode()).is(t, http.StatusForbidden)
	for _, who := range []string{brokertest.Runner, brokertest.Auditor} {
		if a := h.as(who).do(http.MethodPost, "/batch", form, nil); a.StatusCode < 400 {
			t.Errorf("%s: %d", who, a.StatusCode)
		}
	}
	if got := h.waitingOf(s.Task.ID); len(got) != 8 {
		t.Errorf("%d of 8 still wait", len(got))
	}
}

// F7: if the facts of one request have changed, nothing is granted.
//
//ebb:invariant I7 ebb computes the facts of each request in a batch decision again before any approval in the batch counts
func TestTogetherIsAllOrNothing(t *testing.T) {
	t.Parallel()
	h, s, rs := few(t, 3)
	b := h.as(brokertest.Approver)
	page := b.get("/batch?" + idsOf(rs).Encode())
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Second], rs[2].ID, broker.Verdict{Code: broker.NotNeeded, Note: "No."}); err != nil {
		t.Fatal(err)
	}
	b.do(http.MethodPost, "/batch", b.multi(page), nil).is(t, http.StatusConflict, "Approving is off")
	if got := h.waitingOf(s.Task.ID); len(got) != 2 || len(got[0].Votes)+len(got[1].Votes) != 0 {
		t.Errorf("%+v", got)
	}
	page = b.get("/batch?" + idsOf(rs[:2]).Encode())
	if _, err := h.Broker.TaintTask(t.Context(), h.Principals[brokertest.Runner], s.Task.ID, []string{"issue-comments"}); err != nil {
		t.Fatal(err)
	}
	b.do(http.MethodPost, "/batch", b.multi(page), nil).is(t, http.StatusConflict, "Nothing was granted")
	all, err := h.Broker.Requests(t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || slices.ContainsFunc(all, func(r broker.Request) bool { return r.State == broker.RequestApproved }) {
		t.Errorf("granted: %v", err)
	}
}

// A batch decision needs the right to decide each request: the owner of the
// task, under any name, and an approver for only a part are refused.
//
//ebb:invariant I7 An approver can make a batch decision only if they are eligible to decide each request in it
func TestTogetherIsForWhoMayDecide(t *testing.T) {
	t.Parallel()
	h, _, rs := few(t, 2)
	var items []approval.Shown
	for _, r := range rs {
		items = append(items, approval.Shown{ID: r.ID, Digest: r.Digest, Snapshot: "{}"})
	}
	approver, group := []broker.Role{broker.RoleApprover}, []string{"approvers"}
	one := scopes.MustParseSet("plain:t/a:read")
	for name, who := range map[string]broker.Principal{
		"its owner":              {ID: "BO@example.com", Roles: approver, Groups: group},
		"under another name":     {ID: "ann", Also: []string{"bo@example.com"}, Roles: approver, Groups: group},
		"its runner":             {ID: brokertest.Runner, Roles: approver, Groups: group},
		"another group":          {ID: "ann", Roles: approver, Groups: []string{"others"}},
		"an auditor":             {ID: "ann", Roles: []broker.Role{broker.RoleAuditor}, Groups: group},
		"limited to one":         {ID: "ann", Roles: approver, Groups: group, Bounds: []scopes.Set{one}},
		"by a group with limits": {ID: "ann", Roles: approver, Groups: group, Within: map[string]scopes.Set{"approvers": one}},
	} {
		if _, err := h.Broker.ApproveBatch(t.Context(), who, items, broker.Verdict{}); broker.AsError(err) == nil || broker.AsError(err).Kind != broker.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, err := h.Broker.ApproveBatch(t.Context(), h.Principals[brokertest.Approver], items, broker.Verdict{}); err != nil || len(out) != 2 || out[1].State != broker.RequestApproved {
		t.Errorf("an approver: %v, %v", out, err)
	}
}

// F7: one form sent many times at once is accepted once.
//
//ebb:invariant I10
func TestTogetherRace(t *testing.T) {
	t.Parallel()
	h, _, rs := few(t, 2)
	b := h.as(brokertest.Approver)
	form := b.multi(b.get("/batch?" + idsOf(rs).Encode()))
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 8 {
		twin := &browser{h: h, cookies: map[string]string{}}
		for k, v := range b.cookies {
			twin.cookies[k] = v
		}
		wg.Go(func() {
			if a := twin.do(http.MethodPost, "/batch", form, nil); a.StatusCode == http.StatusSeeOther {
				won.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	won.Range(func(any, any) bool { n++; return true })
	if n != 1 || len(h.again(rs[0].ID).Votes) != 1 {
		t.Errorf("%d won", n)
	}
}

// F7, B2: the passkey signs the list in its order. The proof is stored with
// each vote, and an auditor verifies each with it.
//
//ebb:invariant I7 A batch decision requires the proof that its request with the highest risk requires
func TestTogetherIsSigned(t *testing.T) {
	t.Parallel()
	h, s, rs := few(t, 3)
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	h.Clock.Add(11 * time.Minute)
	path := "/batch?" + idsOf(rs).Encode()
	b.get(path).is(t, http.StatusOK, "data-passkey=\"/batch/challenge?")
	challenge := func(list []broker.Request) (string, string) {
		q := idsOf(list)
		for _, r := range list {
			q.Add("digest", r.Digest)
		}
		return a.options(b, "/batch/challenge?"+q.Encode())
	}
	send := func(signed []broker.Request, change func(url.Values)) answer {
		c, state := challenge(signed)
		form := b.multi(b.get(path))
		form.Set("assertion", a.get(c))
		form.Set("state", state)
		if change != nil {
			change(form)
		}
		return b.do(http.MethodPost, "/batch", form, nil)
	}
	b.do(http.MethodPost, "/batch", b.multi(b.get(path)), nil).is(t, http.StatusForbidden)
	send(rs[:2], nil).is(t, http.StatusForbidden)                                // one more than was signed
	send([]broker.Request{rs[1], rs[0], rs[2]}, nil).is(t, http.StatusForbidden) // in another order
	send(rs, func(f url.Values) {                                                // reordered after signing
		for _, name := range []string{"id[]", "digest[]", "seen[]"} {
			slices.Reverse(f[name])
		}
	}).is(t, http.StatusForbidden)
	c, state := a.options(b, "/requests/"+rs[0].ID+"/challenge?"+url.Values{"choice": {"approve"}, "digest": {rs[0].Digest}}.Encode())
	form := b.multi(b.get(path))
	form.Set("assertion", a.get(c))
	form.Set("state", state)
	b.do(http.MethodPost, "/batch", form, nil).is(t, http.StatusForbidden) // signed for one of them
	if len(h.waitingOf(s.Task.ID)) != 3 {
		t.Fatal("granted")
	}
	send(rs, nil).is(t, http.StatusSeeOther)
	got, err := h.Store.Requests(t.Context(), broker.RequestFilter{TaskID: s.Task.ID, Snapshots: true})
	if err != nil || len(got) != 3 {
		t.Fatal(len(got), err)
	}
	for _, r := range got {
		var p passkey.Proof
		if err := json.Unmarshal([]byte(r.Votes[0].Proof), &p); err != nil {
			t.Fatal(err)
		}
		d := passkey.Decision{Request: r.ID, Choice: "approve", Digest: r.Digest}
		if err := p.Verify(d); err != nil || len(p.Of) != 3 {
			t.Errorf("%v, of %d", err, len(p.Of))
		}
		d.Choice = "narrow"
		if p.Verify(d) == nil {
			t.Error("it proves another answer, too")
		}
		p.Of = append(slices.Clone(p.Of[1:]), p.Of[0])
		if p.Verify(passkey.Decision{Request: r.ID, Choice: "approve", Digest: r.Digest}) == nil {
			t.Error("it proves the list in another order, too")
		}
	}
}
