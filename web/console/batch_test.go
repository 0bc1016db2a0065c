package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// few is a fixture with n waiting requests of n tasks that one answer can decide.
func few(t *testing.T, n int) (*fixture, []broker.Request) {
	t.Helper()
	h, _ := ofEach(t, proof.Friction{})
	var rs []broker.Request
	for i := range n {
		rs = append(rs, h.like(fmt.Sprintf("plain:t/%c:read", 'a'+i), fmt.Sprintf("run %d", i), func(s *broker.TaskSpec) { s.Name = fmt.Sprintf("bump %d", i) }))
	}
	return h, rs
}

// like creates a waiting request of a new task.
func (h *fixture) like(scope, reason string, change func(*broker.TaskSpec)) broker.Request {
	h.t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("plain:**:* orders:**:*")
	if change != nil {
		change(&spec)
	}
	r, _ := h.asks(scope, reason, spec)
	h.Clock.Add(time.Millisecond)
	return r
}

func idsOf(rs []broker.Request) url.Values {
	q := url.Values{}
	for _, r := range rs {
		q.Add("id", r.ID)
	}
	return q
}

// of returns the values of the form field that name these requests and their facts.
func of(rs []broker.Request) (out []string) {
	for _, r := range rs {
		out = append(out, r.ID+":"+r.Digest)
	}
	return out
}

var checked = regexp.MustCompile(`name="of\[\]" value="([^"]*)" checked>`)

// multi returns the form of the page of a group, with the selected requests.
func (b *browser) multi(page answer) url.Values {
	f := b.fill(page, "/batch", nil)
	for _, m := range checked.FindAllStringSubmatch(page.body, -1) {
		f.Add("of[]", html.UnescapeString(m[1]))
	}
	return f
}

// group opens the page of a group and returns its form.
func (b *browser) group(rs []broker.Request) url.Values {
	b.h.t.Helper()
	page := b.get("/batch?" + idsOf(rs).Encode())
	page.is(b.h.t, http.StatusOK)
	return b.multi(page)
}

// The button that approves a group names its consequence: the resource that all requests share, and
// the longest lifetime. It is true for any ticked boxes.
func TestTogetherNamesTheConsequence(t *testing.T) {
	t.Parallel()
	h, _ := ofEach(t, proof.Friction{})
	rs := []broker.Request{h.like("plain:t/a:read", "one", nil), h.like("plain:t/a:read", "two", nil)}
	b := h.as(brokertest.Approver)
	b.get("/batch?"+idsOf(rs).Encode()).is(t, http.StatusOK, `Approve <span data-ticked>the ticked requests</span>: Read <span class="name">t/a</span>, 15 min each</button>`)
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("plain:**:*")
	s := h.Open(t, spec)
	in := s.Request(t, "plain:t/a:read")
	in.Deferred, in.TTL = true, 5*time.Minute
	if _, err := h.Broker.Token(t.Context(), in); broker.AsError(err).Kind != broker.Pending {
		t.Fatal(err)
	}
	short, err := h.Broker.Requests(t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range [][]broker.Request{append(slices.Clone(rs), short...), append(short, rs...)} {
		b.get("/batch?"+idsOf(all).Encode()).is(t, http.StatusOK, `<span class="name">t/a</span>, at most 15 min each</button>`)
	}
}

func (h *fixture) state(r broker.Request) broker.RequestState { return h.again(r.ID).State }

// Twenty alike requests of twenty tasks get one answer. Each vote stores the
// snapshot of its request and the whole list.
func TestTogether(t *testing.T) {
	t.Parallel()
	h, rs := few(t, approval.MaxBatch)
	b := h.as(brokertest.Approver)
	q := b.get("/queue")
	q.is(t, http.StatusOK, "Waiting for you (23)", "19 more like this (20 tasks)", "Review all 20 together")
	link := regexp.MustCompile(`href="(/batch\?[^"]*)">Review all 20`).FindStringSubmatch(q.body)
	page := b.get(html.UnescapeString(link[1]))
	page.is(t, http.StatusOK, "20 alike requests", rs[0].Match, rs[19].Match, "“bump 19”", "run 19", "Agent text of request 20, not checked", "Low risk: one click", `Deny <span data-ticked>the ticked requests</span></button>`,
		`Approve <span data-ticked>the ticked requests</span>: Read the listed resources, 15 min each</button>`)
	if n := strings.Count(page.body, "Opened by"); n != 1 {
		t.Errorf("a fact that all have in common is shown %d times", n)
	}
	b.do(http.MethodPost, "/batch", b.multi(page), nil).is(t, http.StatusOK, "You approved 20 requests", "Next (3 left)", "t/t")
	for _, r := range rs {
		got, err := h.Store.Requests(t.Context(), broker.RequestFilter{IDs: []string{r.ID}, Snapshots: true})
		if err != nil || len(got) != 1 || got[0].State != broker.RequestApproved || len(got[0].Votes) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		var seen struct{ Request, Digest string }
		if err := json.Unmarshal([]byte(got[0].Votes[0].Snapshot), &seen); err != nil || seen.Request != r.ID || seen.Digest != r.Digest {
			t.Errorf("%s: the stored page is of %s, %v", r.ID, seen.Request, err)
		}
		together := 0
		for e, err := range h.Store.Entries(t.Context(), broker.EntryFilter{RequestID: r.ID, Kind: "request.voted"}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range rs {
				together += strings.Count(string(e.Data), o.ID)
			}
		}
		if together != len(rs) {
			t.Errorf("the record names %d of %d", together, len(rs))
		}
	}
}

// twoSuspicious returns two waiting requests, and the form that denies both as suspicious. While off
// is set, no task can be stopped everywhere.
func twoSuspicious(t *testing.T) (h *fixture, rs []broker.Request, b *browser, form url.Values, off *atomic.Bool) {
	t.Helper()
	off = new(atomic.Bool)
	h = newFixture(t, brokertest.Config{
		LiveStore: silent{memstore.New(memstore.Config{}), off},
		Policies:  map[string][]byte{"p.cedar": []byte(`@id("ask") @ask("approvers") @max_ttl("15m") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"plain": {Driver: plainDriver{}, Kind: "plain", Resource: "https://plain.test/"}},
	})
	rs = []broker.Request{h.like("plain:t/a:read", "one", nil), h.like("plain:t/b:read", "two", nil)}
	b = h.as(brokertest.Approver)
	form = b.group(rs)
	form.Set("deny", "yes")
	form.Set("code", "suspicious")
	return h, rs, b, form, off
}

// A denial as suspicious is recorded, but the task could not be stopped: the page says both.
func TestTogetherCountsBeforeAFailure(t *testing.T) {
	t.Parallel()
	h, rs, b, form, off := twoSuspicious(t)
	off.Store(true)
	a := b.do(http.MethodPost, "/batch", form, nil)
	a.is(t, http.StatusOK, "You denied 2 requests", ">denied<", "The denial is recorded. The end of the task could not be recorded everywhere yet.")
	if strings.Contains(a.body, "not decided by you") || h.state(rs[0]) != broker.RequestDenied || h.state(rs[1]) != broker.RequestDenied {
		t.Error(a.body)
	}
	a = b.do(http.MethodPost, "/batch", form, nil) // the same answer again
	if strings.Contains(a.body, "not decided by you") || strings.Count(a.body, "The end of the task could not be recorded everywhere yet.") != 2 {
		t.Error(a.body)
	}
}

// A denial as suspicious of a withdrawn request stops its task. If that fails, the page says so, and
// does not say that the visitor denied the request.
func TestTogetherOfWithdrawnRequests(t *testing.T) {
	t.Parallel()
	h, rs, b, form, off := twoSuspicious(t)
	if _, err := h.Config.ApprovalStore.Settle(t.Context(), rs[0].ID, broker.RequestPending, broker.RequestWithdrawn, h.Clock.Now(), broker.Record{}); err != nil {
		t.Fatal(err)
	}
	off.Store(true)
	a := b.do(http.MethodPost, "/batch", form, nil)
	a.is(t, http.StatusOK, "You denied 1 of 2 requests", "not decided by you", ">The end of the task could not be recorded everywhere yet.", "The denial is recorded. The end")
	if h.state(rs[0]) != broker.RequestWithdrawn || h.state(rs[1]) != broker.RequestDenied {
		t.Error(a.body)
	}
}

// A group is denied with one reason. A rejected form keeps the input and the selection.
func TestDenyTogether(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 4)
	b := h.as(brokertest.Approver)
	form := b.group(rs)
	form.Set("deny", "yes")
	form.Set("note", strings.Repeat("é", 501))
	form["of[]"] = form["of[]"][:3]
	a := b.do(http.MethodPost, "/batch", form, nil)
	a.is(t, http.StatusUnprocessableEntity, "Choose a reason.", "At most 500 characters.", "éé", `aria-invalid="true" autofocus`)
	if got := b.multi(a)["of[]"]; !slices.Equal(got, of(rs[:3])) {
		t.Errorf("selected: %v", got)
	}
	form = b.multi(a)
	form.Del("of[]")
	form.Set("deny", "yes")
	b.do(http.MethodPost, "/batch", form, nil).is(t, http.StatusUnprocessableEntity, "Select at least one request.")
	form = b.multi(a)
	form.Set("deny", "yes")
	form.Set("code", "not_needed")
	form.Set("note", "Use the release job.")
	form.Set("nonce", b.group(rs).Get("nonce"))
	b.do(http.MethodPost, "/batch", form, nil).is(t, http.StatusOK, "You denied 3 requests")
	for i, r := range rs {
		got := h.again(r.ID)
		if denied := got.State == broker.RequestDenied; denied != (i < 3) || denied && (got.Code != broker.NotNeeded || got.Note != "Use the release job." || got.Votes[0].By != brokertest.Approver) {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// No form can decide other combinations of requests by one answer.
//
//ebb:invariant I7 A batch decision contains only different requests with the same provider, actions, resource pattern, policy rules and risk
//ebb:invariant I7 A batch decision contains no request of high risk
//ebb:invariant I7 A batch decision covers only requests and facts that its page showed to this person
func TestBatchRefuses(t *testing.T) {
	t.Parallel()
	h, rs := few(t, approval.MaxBatch+1)
	b := h.as(brokertest.Approver)
	deeper, wild, action := h.like("plain:t/a/b:read", "x", nil), h.like("plain:t/*:read", "x", nil), h.like("plain:t/a:write", "x", nil)
	two := h.like("plain:t/a:read plain:t/b:read", "x", nil)
	high, high2 := h.like("orders:eu/1:write", "x", nil), h.like("orders:eu/2:write", "x", nil)
	for name, list := range map[string][]broker.Request{
		"21":              rs,
		"none":            nil,
		"twice":           {rs[0], rs[1], rs[0]},
		"another level":   {rs[0], deeper},
		"a pattern":       {rs[0], wild},
		"another action":  {rs[0], action},
		"two resources":   {rs[0], two},
		"two providers":   {rs[0], high},
		"high":            {high, high2},
		"one of high":     {high},
		"high among them": {rs[0], rs[1], high},
	} {
		if a := b.get("/batch?" + idsOf(list).Encode()); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is shown: %d", name, a.StatusCode)
		}
		form := b.group(rs[:2])
		form["of[]"] = of(list)
		if a := b.do(http.MethodPost, "/batch", form, nil); a.StatusCode != http.StatusBadRequest && a.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s is taken: %d", name, a.StatusCode)
		}
	}
	alone := b.form(b.get("/requests/"+rs[0].ID), "approve", nil)
	foreign := h.as(brokertest.Second).group(rs[:2]).Get("seen")
	for name, change := range map[string]func(url.Values){
		"a forged digest":      func(f url.Values) { f["of[]"][0] = rs[0].ID + ":" + strings.Repeat("0", 64) },
		"digests swapped":      func(f url.Values) { f["of[]"] = []string{rs[0].ID + ":" + rs[1].Digest, rs[1].ID + ":" + rs[0].Digest} },
		"a shortened digest":   func(f url.Values) { f["of[]"][0] = rs[0].ID + ":" + rs[0].Digest[:12] },
		"no digest":            func(f url.Values) { f["of[]"][0] = rs[0].ID },
		"an unknown one":       func(f url.Values) { f["of[]"][0] = "req_" + strings.Repeat("0", 32) + ":" + rs[0].Digest },
		"a path":               func(f url.Values) { f["of[]"][0] = "../x:" + rs[0].Digest },
		"one that was not":     func(f url.Values) { f["of[]"] = append(f["of[]"], of(rs[2:3])...) },
		"twice":                func(f url.Values) { f["of[]"] = append(f["of[]"], f["of[]"][0]) },
		"nothing seen":         func(f url.Values) { f.Del("seen") },
		"the seen of one page": func(f url.Values) { f.Set("seen", alone.Get("seen")) },
		"of another person":    func(f url.Values) { f.Set("seen", foreign) },
		"a changed snapshot":   func(f url.Values) { f.Set("seen", "A"+f.Get("seen")) },
		"no nonce":             func(f url.Values) { f.Del("nonce") },
		"two notes":            func(f url.Values) { f["note"] = []string{"a", "b"} },
	} {
		for _, deny := range []string{"", "yes"} {
			form := b.group(rs[:2])
			change(form)
			form.Set("deny", deny)
			form.Set("code", "too_broad")
			if a := b.do(http.MethodPost, "/batch", form, nil); a.StatusCode < 400 {
				t.Errorf("%s, deny %q: %d", name, deny, a.StatusCode)
			}
		}
	}
	// An auditor and the task's runner cannot decide with any form.
	form := b.group(rs[:2])
	aud := h.as(brokertest.Auditor)
	newAuthenticator(t).register(aud).is(t, http.StatusSeeOther)
	aud.get("/batch/challenge?"+url.Values{"of[]": of(rs[:2])}.Encode()).is(t, http.StatusForbidden)
	b.get("/batch/challenge?"+url.Values{"of[]": of(rs)}.Encode()).is(t, http.StatusBadRequest)
	b.get("/batch/challenge").is(t, http.StatusBadRequest)
	for _, who := range []string{brokertest.Runner, brokertest.Auditor} {
		if a := h.as(who).do(http.MethodPost, "/batch", form, nil); a.StatusCode < 400 {
			t.Errorf("%s: %d", who, a.StatusCode)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a script":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "cors") },
		"another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		if a := b.do(http.MethodPost, "/batch", form, change); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	for _, r := range append(rs, high, high2) {
		if got := h.again(r.ID); got.State != broker.RequestPending || len(got.Votes) != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// ebb checks each request of a group separately. The answer counts for each
// request that still waits and has the facts shown. For the other requests the
// page says why the answer does not count.
//
//ebb:invariant I7 ebb computes the facts of each request in a batch decision again before it approves that request
func TestTogetherInPart(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 5)
	b := h.as(brokertest.Approver)
	form := b.group(rs)
	form["of[]"] = of(rs[:4]) // the person has taken the last one out
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Second], rs[1].ID, broker.Verdict{Code: broker.NotNeeded}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Broker.TaintTask(t.Context(), h.Principals[brokertest.Runner], rs[2].TaskID, []string{"issue-comments"}); err != nil {
		t.Fatal(err)
	}
	a := b.do(http.MethodPost, "/batch", form, nil)
	a.is(t, http.StatusOK, "You approved 2 of 4 requests", "not decided by you", "denied", brokertest.Second, "withdrawn")
	for i, want := range []broker.RequestState{broker.RequestApproved, broker.RequestDenied, broker.RequestWithdrawn, broker.RequestApproved, broker.RequestPending} {
		if got := h.state(rs[i]); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	b.do(http.MethodPost, "/batch", form, nil).is(t, http.StatusConflict, "already sent")
	form.Set("nonce", b.group(rs[4:]).Get("nonce"))
	b.do(http.MethodPost, "/batch", form, nil).is(t, http.StatusConflict, "You approved 0 of 4 requests")
	b.get("/batch?"+idsOf(rs).Encode()).is(t, http.StatusOK, " approved this ", `value="`+of(rs[4:])[0]+`" checked`)
}

// A batch decision needs the right to decide each request: the owner of the
// task, under any name, and an approver for only a part are refused.
//
//ebb:invariant I7 An approver can make a batch decision only if they are eligible to decide each request in it
func TestTogetherIsForWhoMayDecide(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 2)
	rs = append(rs, h.like("plain:t/z:read", "x", func(s *broker.TaskSpec) { s.Owner = "zed@example.com" }))
	var items []approval.Shown
	for _, r := range rs {
		items = append(items, approval.Shown{ID: r.ID, Digest: r.Digest, Snapshot: "{}"})
	}
	approver, group := []broker.Role{broker.RoleApprover}, []string{"approvers"}
	one := scopes.MustParseSet("plain:t/a:read")
	for name, who := range map[string]broker.Principal{
		"its owner":              {ID: "BO@example.com", Roles: approver, Groups: group},
		"the owner of one":       {ID: "zed@example.com", Roles: approver, Groups: group},
		"under another name":     {ID: "ann", Also: []string{"bo@example.com"}, Roles: approver, Groups: group},
		"its runner":             {ID: brokertest.Runner, Roles: approver, Groups: group},
		"another group":          {ID: "ann", Roles: approver, Groups: []string{"others"}},
		"an auditor":             {ID: "ann", Roles: []broker.Role{broker.RoleAuditor}, Groups: group},
		"limited to one":         {ID: "ann", Roles: approver, Groups: group, Bounds: []scopes.Set{one}},
		"by a group with limits": {ID: "ann", Roles: approver, Groups: group, Within: map[string]scopes.Set{"approvers": one}},
	} {
		for _, v := range []broker.Verdict{{Approve: true, Present: true}, {Code: broker.TooBroad}} {
			if _, err := h.Broker.DecideBatch(t.Context(), who, items, v); broker.AsError(err) == nil || broker.AsError(err).Kind != broker.Forbidden {
				t.Errorf("%s, %v: %v", name, v.Approve, err)
			}
		}
	}
	// Parts of the verdict that are for one request have no effect on a group.
	out, err := h.Broker.DecideBatch(t.Context(), h.Principals[brokertest.Approver], items, broker.Verdict{Approve: true, BreakGlass: "bgl_x", Scopes: one, TTL: 1})
	if err != nil || len(out) != 3 {
		t.Fatal(out, err)
	}
	for i, o := range out {
		if o.Err != nil || o.State != broker.RequestApproved || !o.Granted.Equal(rs[i].Scopes) || o.GrantedTTL != rs[i].TTL {
			t.Errorf("%+v", o)
		}
	}
}

// Two approvers of the same group at the same time: each request has one winner. One form sent
// many times at once is accepted once.
//
//ebb:invariant I10
func TestTogetherRace(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 6)
	type attempt struct {
		b    *browser
		form url.Values
	}
	var all []attempt
	for _, who := range []string{brokertest.Approver, brokertest.Second} {
		b := h.as(who)
		form := b.group(rs)
		for range 4 {
			twin := &browser{h: h, cookies: map[string]string{}}
			for k, v := range b.cookies {
				twin.cookies[k] = v
			}
			all = append(all, attempt{twin, form})
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	wins, replays := 0, 0
	said := regexp.MustCompile(`You approved (\d+) (?:of 6 )?requests`)
	for _, at := range all {
		wg.Go(func() {
			a := at.b.do(http.MethodPost, "/batch", at.form, nil)
			mu.Lock()
			defer mu.Unlock()
			m := said.FindStringSubmatch(a.body)
			if m == nil {
				replays++
				return
			}
			n := 0
			fmt.Sscan(m[1], &n)
			wins += n
		})
	}
	wg.Wait()
	if wins != 6 || replays != 6 {
		t.Errorf("%d answers counted, want 6; %d forms were refused, want 6", wins, replays)
	}
	for _, r := range rs {
		if got := h.again(r.ID); got.State != broker.RequestApproved || len(got.Votes) != 1 {
			t.Errorf("%+v", got)
		}
	}
}

// If two people must approve, the answer to a group is the first of them.
func TestTogetherKeepsTheQuorum(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{
		Policies:  map[string][]byte{"p.cedar": []byte(`@id("ask") @ask("approvers") @quorum("2") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"plain": {Driver: plainDriver{}, Kind: "plain", Resource: "https://plain.test/"}},
	})
	rs := []broker.Request{h.like("plain:t/a:read", "x", nil), h.like("plain:t/b:read", "x", nil)}
	b := h.as(brokertest.Approver)
	b.do(http.MethodPost, "/batch", b.group(rs), nil).is(t, http.StatusOK, "You approved 2 requests", "it waits for another approver")
	if got := b.get("/queue"); strings.Contains(got.body, rs[0].ID) || !strings.Contains(b.get("/queue?view=all").body, rs[0].ID) {
		t.Error("a request that the person has answered waits for them, or is in no list")
	}
	if h.state(rs[0]) != broker.RequestPending {
		t.Error("one approval is enough")
	}
	second := h.as(brokertest.Second)
	second.do(http.MethodPost, "/batch", second.group(rs), nil).is(t, http.StatusOK, "You approved 2 requests")
	if h.state(rs[0]) != broker.RequestApproved || h.state(rs[1]) != broker.RequestApproved {
		t.Error("two approvals are not enough")
	}
}

// A group whose agents wrote too much for one form is split. A request with a long text is not
// offered in a group.
func TestTogetherOfLongTexts(t *testing.T) {
	t.Parallel()
	h, _ := ofEach(t, proof.Friction{})
	random := rand.New(rand.NewPCG(1, 2))
	var rs []broker.Request
	for i := range 6 {
		var text strings.Builder
		for range 3900 {
			text.WriteRune('一' + rune(random.IntN(20000)))
		}
		rs = append(rs, h.like(fmt.Sprintf("plain:t/%d:read", i), text.String(), nil))
	}
	b := h.as(brokertest.Approver)
	if q := b.get("/queue"); strings.Contains(q.body, "Review all") {
		t.Error("offered")
	}
	page := b.get("/batch?" + idsOf(rs).Encode())
	page.is(t, http.StatusOK, "too long for one form", "the first half")
	if strings.Contains(page.body, "Approve <span") {
		t.Error("a form that is too long is offered")
	}
	form := b.group(rs[:2])
	if n := len(form.Encode()); n > 64<<10 {
		t.Fatalf("the form has %d bytes", n)
	}
	b.do(http.MethodPost, "/batch", form, nil).is(t, http.StatusOK, "You approved 2 requests")
}

// The passkey signs the list in its order. The proof is stored with
// each vote, and an auditor verifies each with it.
//
//ebb:invariant I7 A batch decision requires the proof that the risk of its requests requires
func TestTogetherIsSigned(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 4)
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	h.Clock.Add(11 * time.Minute)
	b.get("/batch?"+idsOf(rs).Encode()).is(t, http.StatusOK, "data-passkey=\"/batch/challenge\"")
	send := func(signed []broker.Request, change func(url.Values)) answer {
		c, state := a.options(b, "/batch/challenge?"+url.Values{"of[]": of(signed)}.Encode())
		form := b.group(rs)
		form["of[]"] = of(rs[:3]) // one is taken out
		form.Set("assertion", a.get(c))
		form.Set("state", state)
		if change != nil {
			change(form)
		}
		return b.do(http.MethodPost, "/batch", form, nil)
	}
	b.do(http.MethodPost, "/batch", b.group(rs), nil).is(t, http.StatusForbidden)
	send(rs[:2], nil).is(t, http.StatusForbidden)                                              // one more than was signed
	send(rs, nil).is(t, http.StatusForbidden)                                                  // one less than was signed
	send([]broker.Request{rs[1], rs[0], rs[2]}, nil).is(t, http.StatusForbidden)               // in another order
	send(rs[:3], func(f url.Values) { slices.Reverse(f["of[]"]) }).is(t, http.StatusForbidden) // reordered after signing
	c, state := a.options(b, "/requests/"+rs[0].ID+"/challenge?"+url.Values{"choice": {"deny"}, "digest": {rs[0].Digest}}.Encode())
	form := b.group(rs)
	form["of[]"] = of(rs[:1])
	form.Set("assertion", a.get(c))
	form.Set("state", state)
	b.do(http.MethodPost, "/batch", form, nil).is(t, http.StatusForbidden) // signed for a denial
	for _, r := range rs {
		if len(h.again(r.ID).Votes) != 0 {
			t.Fatal("granted")
		}
	}
	send(rs[:3], nil).is(t, http.StatusOK, "You approved 3 requests")
	for _, want := range rs[:3] {
		got, err := h.Store.Requests(t.Context(), broker.RequestFilter{IDs: []string{want.ID}, Snapshots: true})
		if err != nil || len(got) != 1 {
			t.Fatal(len(got), err)
		}
		r := got[0]
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
		d = passkey.Decision{Request: rs[3].ID, Choice: "approve", Digest: rs[3].Digest}
		if p.Verify(d) == nil {
			t.Error("it proves an answer to the request that was taken out, too")
		}
		p.Of = append(slices.Clone(p.Of[1:]), p.Of[0])
		if p.Verify(passkey.Decision{Request: r.ID, Choice: "approve", Digest: r.Digest}) == nil {
			t.Error("it proves the list in another order, too")
		}
	}
	if h.state(rs[3]) != broker.RequestPending || rs[0].Level() != risk.Low {
		t.Error("a request that was taken out was decided")
	}
}
