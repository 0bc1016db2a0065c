package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes/policy"
)

const (
	evilName  = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u2066\u200b\U000e0041\u2705 {{.}}"
	onlyReads = `@id("read") @max_ttl("10m") permit (principal, action == Ebb::Action::"read", resource);`
	allOfIt   = `@id("all") permit (principal, action, resource);`
)

// drafted creates a draft.
func (h *fixture) drafted(author string, text string) policyset.Draft {
	h.t.Helper()
	d, err := h.Broker.DraftPolicies(h.t.Context(), h.Principals[author], "for \u00dcbung", []policyset.File{{Name: "a.cedar", Text: text}})
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// plainPage fails if a page contains markup from a text, or invisible
// characters.
func plainPage(t *testing.T, path string, a answer) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", "onerror=alert(1)>"} {
		if strings.Contains(a.body, bad) {
			t.Errorf("%s draws %s", path, bad)
		}
	}
	for _, r := range a.body {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) {
			t.Errorf("%s has U+%04X in it", path, r)
			break
		}
	}
}

// Policy files are shown escaped, so that they can neither hide text nor inject
// markup, to people who may see them.
func TestPolicyPagesHideNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Policies: map[string][]byte{
		"a.cedar": []byte("// " + evilName + "\n@id(\"a\") @why(\"<script>alert(1)</script><img src=x onerror=alert(1)>\") @ask(\"approvers\")\npermit (principal, action, resource);\n"),
	}})
	d := h.drafted(brokertest.Operator, "// <script>alert(1)</script><img src=x onerror=alert(1)>\n@id(\"b\") @why(\"<script>alert(1)</script>\") permit (principal, action, resource);")
	ask := "/policy?provider=orders&resource=eu/1&action=write&kind=" + url.QueryEscape("<script>alert(1)</script>") + "&taint=web,mail&selectors=a=b&minutes=60"
	ops := h.as(brokertest.Operator)
	at := "/policy/drafts/" + d.ID
	for _, path := range []string{"/policy", ask, ask + "&draft=" + d.ID, at, at + "/file?name=a.cedar", at + "/file", at + "/replay", at + "/replay?days=30"} {
		a := ops.get(path)
		a.is(t, http.StatusOK)
		plainPage(t, path, a)
	}
	ops.get("/policy").is(t, http.StatusOK, "[U&#43;202E]", "&lt;script&gt;", "files that this ebb watches", "1 of approvers")
	ops.get(ask+"&draft="+d.ID).is(t, http.StatusOK, "WIDER", "NEEDS APPROVAL", "GRANTED", "orders:**:*", "Would be allowed without approval; needed approval by 1 person in approvers before.")
	for delivery, word := range map[string]string{"egress": "stays in ebb", "token": "returned to the sandbox"} {
		ops.get(ask+"&delivery="+delivery).is(t, http.StatusOK, "NEEDS APPROVAL", `<option value="`+delivery+`" selected>`+word)
	}
	ops.get(at).is(t, http.StatusOK, "WIDER: it grants EVERYTHING", "mail", "orders", "This ebb reads its policies from files")
	patch := ops.get(at + "/patch")
	patch.is(t, http.StatusOK, "--- a/a.cedar", "@@ -1,3 +1,2 @@")
	if kind := patch.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/x-diff") || patch.Header.Get("Content-Disposition") == "" {
		t.Errorf("a patch is %s", kind)
	}
	// Invisible characters are refused with their line, and shown.
	wrong := ops.send(ops.get(at+"/file?name=a.cedar"), at+"/file", url.Values{"text": {"\r\n@id(\"x\") // \u202e" + evilName + "\r\npermit (principal, action, resource);"}, "note": {""}})
	wrong.is(t, http.StatusUnprocessableEntity, "a.cedar:2: the character U&#43;202E cannot be seen", "[U&#43;202E]", "Nothing was saved")
	plainPage(t, "the form again", wrong)
	wrong = ops.send(ops.get(at+"/file?name=a.cedar"), at+"/file", url.Values{"text": {"@id(\"x\") permit (principal, action, resource)\nwhen { context.nope };"}, "note": {""}})
	wrong.is(t, http.StatusUnprocessableEntity, "a.cedar:2:16", "nope")
	ops.do(http.MethodPost, at+"/file", url.Values{"text": {strings.Repeat("x", 1<<20)}}, nil).is(t, http.StatusBadRequest)
	// Read rights.
	ann, ci, aud := h.as(brokertest.Approver), h.as(brokertest.Runner), h.as(brokertest.Auditor)
	if a := ann.get(ask); a.StatusCode != http.StatusOK || strings.Contains(a.body, d.ID) || strings.Contains(a.body, "Drafts") {
		t.Errorf("an approver: %d, %s", a.StatusCode, a.body)
	}
	ci.get("/policy").is(t, http.StatusForbidden)
	aud.get(at).is(t, http.StatusOK)
	for _, path := range []string{at, at + "/replay", at + "/patch", at + "/file", ask + "&draft=" + d.ID, "/policy/releases/1"} {
		ann.get(path).is(t, http.StatusForbidden)
	}
	if strings.Contains(aud.get("/policy").body, "Create a draft") || strings.Contains(aud.get(at).body, "Discard the draft") {
		t.Error("an auditor is offered to write")
	}
	for _, path := range []string{"/policy?resource=x&action=y", "/policy?provider=orders&resource=eu/1&action=a+b", "/policy?provider=orders&resource=eu&action=read&minutes=x", "/policy?provider=orders&resource=eu&action=read&selectors=x", "/policy?provider=orders&resource=eu&action=read&delivery=carrier"} {
		ops.get(path).is(t, http.StatusUnprocessableEntity)
	}
	for _, path := range []string{"/policy/drafts/pol_1", "/policy/drafts/" + strings.Repeat("x", 300), "/policy/releases/1", "/policy/releases/x", "/policy/releases/-1", at + "/file?name=..%2Fa.cedar", "/policy?provider=orders&resource=eu/1&action=read&draft=pol_1"} {
		ops.get(path).is(t, http.StatusNotFound)
	}
	ops.get("/policy?nonsense=1").is(t, http.StatusBadRequest)
	ops.get(at+"/replay?days=365").is(t, http.StatusBadRequest)
}

// A draft is created, edited, published by a second person, and reverted in the
// same way; each step requires its rights.
//
//ebb:invariant I11 Each publication of policies is recorded in the audit log
func TestPolicyIsPublished(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Published: true})
	ops, ols, ann := h.as(brokertest.Operator), h.as(brokertest.Operator2), h.as(brokertest.Approver)
	begun := ops.send(ops.get("/policy"), "/policy/drafts", url.Values{"note": {"only reading"}})
	begun.is(t, http.StatusSeeOther)
	at := begun.Header.Get("Location")
	page := ops.get(at)
	page.is(t, http.StatusOK, "only reading", "No policy differs", "You cannot publish your own draft")
	ops.send(ops.get(at+"/file?name=starter.cedar"), at+"/file", url.Values{"text": {onlyReads}, "note": {"only reading"}}).is(t, http.StatusSeeOther)
	ops.get(at).is(t, http.StatusOK, "This forbid is removed", "WIDER", "NARROWER", "starter-no-violators")
	// The author gets no form. A forged form is refused, as are forms of other
	// people without the right.
	form := url.Values{"digest": {h.proposed(at).Digest()}, "assertion": {""}, "state": {""}}
	if strings.Contains(ops.get(at).body, at+"/publish") {
		t.Error("the author is offered to publish")
	}
	for who, b := range map[string]*browser{"author": ops, "approver": ann} {
		forged := url.Values{"nonce": {b.fill(b.get("/settings"), "/signout", nil).Get("nonce")}}
		for k, v := range form {
			forged[k] = v
		}
		if a := b.do(http.MethodPost, at+"/publish", forged, nil); a.StatusCode < 400 {
			t.Errorf("the %s: %d", who, a.StatusCode)
		}
	}
	// An old page cannot publish.
	looked := ols.get(at)
	h.Clock.Add(11 * time.Minute)
	ols.send(looked, at+"/publish", nil).is(t, http.StatusForbidden, "within the last 10 minutes")
	ols = h.as(brokertest.Operator2)
	looked = ols.get(at)
	done := ols.send(looked, at+"/publish", nil)
	done.is(t, http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "/policy/releases/1" {
		t.Fatal(to)
	}
	ols.send(looked, at+"/publish", nil).is(t, http.StatusConflict)
	ops = h.as(brokertest.Operator)
	release := ops.get("/policy/releases/1")
	release.is(t, http.StatusOK, "ops", "ols", "only reading", "a sign-in within the 10 minutes before")
	ops.get("/policy").is(t, http.StatusOK, "release 1, published here", "ols")
	e := h.lastEntry(t, audit.PolicyPublished)
	if e.Actor != brokertest.Operator2 || !strings.Contains(string(e.Data), `"author":"ops"`) || !strings.Contains(string(e.Data), `"proofs":{"presence":{"by":"link","proved_at":`) {
		t.Errorf("the record says %s %s", e.Actor, e.Data)
	}
	// Reverting: a draft of an older set is an ordinary draft.
	again := ops.send(release, "/policy/drafts", nil)
	again.is(t, http.StatusSeeOther)
	ops.get(again.Header.Get("Location")).is(t, http.StatusOK, "As in release 1", "You cannot publish your own draft")
}

func (h *fixture) proposed(at string) policyset.Draft {
	h.t.Helper()
	d, err := h.Broker.PolicyDraft(h.t.Context(), h.Principals[brokertest.Auditor], at[strings.LastIndex(at, "/")+1:])
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// Only the text that was seen can be published. Another text, another set in
// force and another publisher in between are 409.
//
//ebb:invariant I7 A policy draft can be published only while the policy set on which it is based is in force
func TestPublishIsBound(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Published: true})
	ops, ols := h.as(brokertest.Operator), h.as(brokertest.Operator2)
	d := h.drafted(brokertest.Operator, onlyReads)
	at := "/policy/drafts/" + d.ID
	looked := ols.get(at)
	ops.send(ops.get(at+"/file?name=a.cedar"), at+"/file", url.Values{"text": {allOfIt}, "note": {""}}).is(t, http.StatusSeeOther)
	ols.send(looked, at+"/publish", nil).is(t, http.StatusConflict, "have changed since they were shown to you", "WIDER: it grants EVERYTHING")
	// The same form for another digest needs another step-up and another page.
	other := h.drafted(brokertest.Operator, `@id("none") forbid (principal, action, resource);`)
	looked = ols.get(at)
	mine, theirs := ols.get("/policy/drafts/"+other.ID), looked
	ols.send(mine, "/policy/drafts/"+other.ID+"/publish", nil).is(t, http.StatusSeeOther)
	ols.send(theirs, at+"/publish", nil).is(t, http.StatusConflict, "The policies in force are not those")
	stale := ops.get(at)
	stale.is(t, http.StatusOK, "the draft is still valid", "is in force")
	ops.send(stale, at+"/rebase", nil).is(t, http.StatusSeeOther)
	// Of two simultaneous forms one wins.
	looked = ols.get(at)
	second := ols.get(at)
	var wg sync.WaitGroup
	codes := make([]int, 2)
	for i, p := range []answer{looked, second} {
		form := ols.fill(p, at+"/publish", nil)
		cookies := map[string]string{}
		for k, v := range ols.cookies {
			cookies[k] = v
		}
		wg.Go(func() {
			codes[i] = (&browser{h: h, cookies: cookies}).do(http.MethodPost, at+"/publish", form, nil).StatusCode
		})
	}
	wg.Wait()
	if (codes[0] == http.StatusSeeOther) == (codes[1] == http.StatusSeeOther) {
		t.Errorf("got %v", codes)
	}
	if in, err := h.Broker.PolicyInForce(h.Principals[brokertest.Operator]); err != nil || in.Number != 2 {
		t.Errorf("%d is in force, %v", in.Number, err)
	}
}

// Acceptance check 17, by a publication between reading and approving.
func TestPublishBetweenLookAndApprove(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Published: true})
	r := h.asked("orders:eu/1:write")
	ann := h.as(brokertest.Approver)
	page := ann.get("/requests/" + r.ID)
	d := h.drafted(brokertest.Operator, policy.StarterSource()+"\n@id(\"one-more\") permit (principal, action == Ebb::Action::\"list\", resource in Ebb::Provider::\"mail\");\n")
	if _, err := h.Broker.PublishPolicies(t.Context(), h.Principals[brokertest.Operator2], d.ID, d.Digest(), broker.Verdict{}); err != nil {
		t.Fatal(err)
	}
	ann.choose(page, r.ID, "approve", typedTarget).is(t, http.StatusConflict, "Policy version", "The facts have changed")
	if got := h.again(r.ID); got.State != broker.RequestWithdrawn || len(got.Votes) != 0 {
		t.Errorf("%s after %d votes", got.State, len(got.Votes))
	}
}

// Acceptance check 28, of the policies: with none in force nothing can be
// approved, the page says why, and denying works.
func TestNoPolicies(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	h.Env.Config.Policy.Replace(nil)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Approving is off", "No policies are in force", "Write to")
	if strings.Contains(page.body, `value="approve"`) || strings.Contains(page.body, `value="narrow"`) {
		t.Error("it can be approved")
	}
	b.get("/queue").is(t, http.StatusOK, r.Match)
	b.get("/policy").is(t, http.StatusOK, "all requests are denied")
	b.choose(page, r.ID, "deny", no).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.State != broker.RequestDenied {
		t.Error(got.State)
	}
	other := newFixture(t, brokertest.Config{})
	r = other.asked("orders:eu/1:write")
	b = other.as(brokertest.Approver)
	before := b.get("/requests/" + r.ID)
	other.Env.Config.Policy.Replace(nil)
	b.choose(before, r.ID, "approve", typedTarget).is(t, http.StatusConflict)
	if got := other.again(r.ID); got.State == broker.RequestApproved {
		t.Error(got.State)
	}
}

// A replay lists requests that people denied and the draft would grant.
func TestReplayPage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Published: true})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	b.choose(b.get("/requests/"+r.ID), r.ID, "deny", no).is(t, http.StatusSeeOther)
	h.Clock.Add(time.Minute)
	d := h.drafted(brokertest.Operator, allOfIt)
	page := h.as(brokertest.Auditor).get("/policy/drafts/" + d.ID + "/replay?days=1")
	page.is(t, http.StatusOK, "1 request until", "Would be allowed without approval; needed approval before: 1", "(!) 1 of these was DENIED by a person", "/requests/"+r.ID, "WIDER")
}

// Every form works once; sent again, it is refused with the reason.
//
//ebb:invariant I10 The console accepts each form only once
func TestFormServesOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Published: true})
	ops := h.as(brokertest.Operator)
	form := ops.fill(ops.get("/policy"), "/policy/drafts", url.Values{"note": {"once"}})
	ops.do(http.MethodPost, "/policy/drafts", form, nil).is(t, http.StatusSeeOther)
	ops.do(http.MethodPost, "/policy/drafts", form, nil).is(t, http.StatusConflict, "already sent")
	if ds, err := h.Broker.PolicyDrafts(t.Context(), h.Principals[brokertest.Operator]); err != nil || len(ds) != 1 {
		t.Errorf("%d drafts, %v", len(ds), err)
	}
}
