package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

const glassWhy = `Orders <b>stand</b> still & nobody "else" is awake`

// breakGlassFixture is a fixture in which approvers and an operator have the break-glass
// right.
func breakGlassFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, brokertest.Config{
		Limits:     broker.Limits{HighRiskQuorum: 2},
		BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}, People: []string{"gil", "out"}, Check: passkey.Check},
		People: []broker.Principal{
			{ID: "gil", Roles: []broker.Role{broker.RoleOperator, broker.RoleAuditor}}, {ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}},
		},
	})
}

// planned returns the page on which a person proves their identity for a plan.
func (b *browser) planned() answer {
	b.h.t.Helper()
	b.send(b.get("/break-glass"), "/break-glass/plan", url.Values{"incident": {"INC-7"}, "reason": {glassWhy}}).is(b.h.t, http.StatusSeeOther)
	page := b.get("/break-glass/plan")
	page.is(b.h.t, http.StatusOK, "<h1>Start break-glass", "INC-7")
	return page
}

// signs fills in the form of that page, with the passkey signature.
func (a *authenticator) signs(b *browser, page answer) url.Values {
	challenge, state := a.options(b, "/break-glass/challenge")
	return b.fill(page, "/break-glass", url.Values{"assertion": {a.get(challenge)}, "state": {state}})
}

// breaks starts a period and returns the path of its page.
func (a *authenticator) breaks(b *browser) string {
	a.t.Helper()
	got := b.do(http.MethodPost, "/break-glass", a.signs(b, b.planned()), nil)
	got.is(a.t, http.StatusSeeOther)
	return got.Header.Get("Location")
}

// signedInAnew returns the person's next session, in which their existing
// passkeys count.
func (h *fixture) signedInAnew(who string) *browser {
	h.t.Helper()
	h.Clock.Add(time.Second)
	return h.as(who)
}

// began returns the number of periods.
func (h *fixture) began() int {
	h.t.Helper()
	gs, err := h.Broker.BreakGlasses(h.t.Context(), h.Principals[brokertest.Auditor], broker.BreakGlassFilter{})
	if err != nil {
		h.t.Fatal(err)
	}
	return len(gs)
}

// TestBreakGlassWalk: a person starts a period, every page shows it, one
// approval suffices, the period ends, and another person reviews it.
func TestBreakGlassWalk(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	r := h.asked("orders:eu/**:write")
	b, a := h.as("out"), newAuthenticator(t)
	b.get("/requests/"+r.ID).is(t, http.StatusNotFound)
	b.get("/break-glass").is(t, http.StatusOK, "Continue")
	if page := b.planned(); !strings.Contains(page.body, "Break-glass needs a passkey, and you have none") || strings.Contains(page.body, `name="plan"`) {
		t.Errorf("who has no passkey: %s", page.body)
	}
	a.register(b).is(t, http.StatusSeeOther)
	if page := b.planned(); !strings.Contains(page.body, "that you added before this session") || strings.Contains(page.body, `name="plan"`) {
		t.Errorf("whose passkey is of this session: %s", page.body)
	}
	challenge, state := a.options(b, "/break-glass/challenge")
	made := url.Values{"plan": {b.cookies["__Host-ebb-glass"]}, "nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/break-glass")}, "assertion": {a.get(challenge)}, "state": {state}}
	b.do(http.MethodPost, "/break-glass", made, nil).is(t, http.StatusForbidden, "registered in this session")
	b = h.signedInAnew("out")
	at := a.breaks(b)
	b.get(at).is(t, http.StatusOK, "INC-7", "&lt;b&gt;stand&lt;/b&gt;", "The signature is valid", "0 of at most 5", "End break-glass now")
	for _, who := range []string{brokertest.Viewer, brokertest.Runner, brokertest.Approver, brokertest.Auditor, "gil", "out"} {
		for _, path := range []string{"/queue", "/settings", "/nowhere"} {
			if page := h.as(who).get(path); !strings.Contains(page.body, "Break-glass is open") || !strings.Contains(page.body, "INC-7") {
				t.Errorf("%s is not told on %s", who, path)
			}
		}
	}
	h.as(brokertest.Viewer).get(at).is(t, http.StatusOK, "INC-7")
	if page := h.as(brokertest.Viewer).get(at); strings.Contains(page.body, "stand") || strings.Contains(page.body, "Digest") {
		t.Error("a viewer is told why")
	}
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Approve alone, under break-glass", "I need it")
	if strings.Contains(page.body, `value="deny"`) || strings.Contains(page.body, `value="narrow"`) {
		t.Error("who is not asked gives other answers")
	}
	alone := func(fields url.Values) answer {
		form := b.fill(b.get("/requests/"+r.ID), "/requests/"+r.ID+"/decide", nil)
		for k, v := range fields {
			form[k] = v
		}
		return b.do(http.MethodPost, "/requests/"+r.ID+"/decide", form, nil)
	}
	sign := func(choice string) url.Values {
		c, state := a.options(b, "/requests/"+r.ID+"/challenge?"+url.Values{"choice": {choice}, "digest": {r.Digest}}.Encode())
		return url.Values{"assertion": {a.get(c)}, "state": {state}, "target": {"eu/**"}}
	}
	alone(url.Values{"target": {"eu/**"}}).is(t, http.StatusForbidden, "at this risk need it")
	signed := sign("approve-alone")
	signed.Set("target", "eu")
	alone(signed).is(t, http.StatusUnprocessableEntity, "exactly as it is shown")
	signed = sign("approve-alone")
	signed.Set("glass", "brk_"+strings.Repeat("0", 32))
	alone(signed).is(t, http.StatusForbidden)
	signed = sign("approve-alone")
	signed.Set("glass", "")
	alone(signed).is(t, http.StatusUnprocessableEntity, "no break-glass")
	signed = sign("approve-alone")
	signed.Set("choice", "approve")
	alone(signed).is(t, http.StatusForbidden)
	if h.again(r.ID).State != broker.RequestPending {
		t.Fatal("approved")
	}
	b.get("/requests/"+r.ID+"/challenge?choice=approve&digest="+r.Digest).is(t, http.StatusForbidden)
	alone(sign("approve-alone")).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.State != broker.RequestApproved || len(got.Votes) != 1 {
		t.Fatalf("%+v", got)
	}
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "approved alone, under break-glass")
	b.get("/requests/"+r.ID+"/snapshot/out").is(t, http.StatusOK, "alone, under break-glass", "The signature is valid")
	ended(t, h, b, at, r)
}

// ended is the second part of the test: the period ends, and another person
// reviews it.
func ended(t *testing.T, h *fixture, b *browser, at string, r broker.Request) {
	t.Helper()
	aud := h.as(brokertest.Auditor)
	aud.get(at).is(t, http.StatusOK, "1 of at most 5", "orders:eu/**:write for", "/requests/"+r.ID, "End break-glass now", "The signature is valid")
	b.send(b.get(at), at+"/end", nil).is(t, http.StatusSeeOther)
	b.get("/requests/"+r.ID).is(t, http.StatusNotFound)
	b.get(at).is(t, http.StatusOK, "review pending", "Ended")
	b.get("/queue").is(t, http.StatusOK, "was used and is not reviewed yet", "1 time,")
	h.Clock.Add(25 * time.Hour)
	aud = h.as(brokertest.Auditor)
	aud.get("/queue").is(t, http.StatusOK, "the review is overdue")
	aud.get("/break-glass").is(t, http.StatusOK, "review overdue", "INC-7")
	aud.send(aud.get(at), at+"/review", url.Values{"note": {""}}).is(t, http.StatusUnprocessableEntity, "note must be 1 to 500")
	aud.send(aud.get(at), at+"/review", url.Values{"note": {"As it should be."}}).is(t, http.StatusSeeOther)
	aud.get(at).is(t, http.StatusOK, "reviewed", "As it should be.")
	if page := aud.get("/queue"); strings.Contains(page.body, `class="glass"`) {
		t.Error("the line stays")
	}
	if page := h.as(brokertest.Viewer).get("/break-glass"); strings.Contains(page.body, "INC-7") {
		t.Error("a viewer sees what is over")
	}
}

// TestBreakGlassOwnTask: neither the owner nor the runner of a task can approve
// alone for it, with any form.
func TestBreakGlassOwnTask(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	spec := brokertest.Spec()
	spec.Owner, spec.Ceiling = "OUT", scopes.MustParseSet("orders:**:*")
	r, _ := h.asks("orders:eu/1:write", "x", spec)
	b, a := h.as("out"), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	b = h.signedInAnew("out")
	at := a.breaks(b)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK)
	if strings.Contains(page.body, "approve-alone") {
		t.Error("the form is there")
	}
	path := "/requests/" + r.ID + "/decide"
	f := url.Values{"nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], path)}, "choice": {"approve-alone"}, "digest": {r.Digest}, "glass": {strings.TrimPrefix(at, "/break-glass/")}, "target": {"eu/1"}}
	b.do(http.MethodPost, path, f, nil).is(t, http.StatusForbidden)
	b.get("/requests/"+r.ID+"/challenge?choice=approve-alone&digest="+r.Digest).is(t, http.StatusForbidden)
	if h.again(r.ID).State != broker.RequestPending {
		t.Error("approved")
	}
}
