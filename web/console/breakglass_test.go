package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/scopes"
	"ebb/web/console/passkey"
)

const glassWhy = `Orders <b>stand</b> still & nobody "else" is awake`

// glassHouse is one in which approvers, and an operator, may break the glass.
func glassHouse(t *testing.T) *house {
	t.Helper()
	return newHouse(t, brokertest.Config{
		Limits:     broker.Limits{HighRiskQuorum: 2},
		BreakGlass: broker.BreakGlassConfig{Groups: []string{"approvers"}, People: []string{"gil", "out"}, Check: passkey.Check},
		People: []broker.Principal{
			{ID: "gil", Roles: []broker.Role{broker.RoleOperator, broker.RoleAuditor}}, {ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}},
		},
	})
}

// planned is the page on which somebody proves what they are about to begin.
func (b *browser) planned() answer {
	b.h.t.Helper()
	b.send(b.get("/break-glass"), "/break-glass/plan", url.Values{"incident": {"INC-7"}, "reason": {glassWhy}}).is(b.h.t, http.StatusSeeOther)
	page := b.get("/break-glass/plan")
	page.is(b.h.t, http.StatusOK, "You are about to break the glass", "INC-7")
	return page
}

// signs is the form of that page with what a passkey signs.
func (a *authenticator) signs(b *browser, page answer) url.Values {
	challenge, state := a.options(b, "/break-glass/challenge")
	return b.fill(page, "/break-glass", url.Values{"assertion": {a.get(challenge)}, "state": {state}})
}

// breaks the glass, and leads to the page of it.
func (a *authenticator) breaks(b *browser) string {
	a.t.Helper()
	got := b.do(http.MethodPost, "/break-glass", a.signs(b, b.planned()), nil)
	got.is(a.t, http.StatusSeeOther)
	return got.Header.Get("Location")
}

// signedInAnew is somebody's next session, for which the passkey of an earlier one counts.
func (h *house) signedInAnew(who string) *browser {
	h.t.Helper()
	h.Clock.Add(time.Second)
	return h.as(who)
}

// began is how many periods there are.
func (h *house) began() int {
	h.t.Helper()
	gs, err := h.Broker.BreakGlasses(h.t.Context(), h.Principals[brokertest.Auditor], broker.BreakGlassFilter{})
	if err != nil {
		h.t.Fatal(err)
	}
	return len(gs)
}

// TestBreakGlassWalk: somebody breaks the glass, everybody sees it, one yes counts for all,
// it ends, and somebody else reviews it.
func TestBreakGlassWalk(t *testing.T) {
	t.Parallel()
	h := glassHouse(t)
	r := h.asked("orders:eu/**:write")
	b, a := h.as("out"), newAuthenticator(t)
	b.get("/requests/"+r.ID).is(t, http.StatusNotFound)
	b.get("/break-glass").is(t, http.StatusOK, "Go on")
	if page := b.planned(); !strings.Contains(page.body, "This takes a passkey, and you have none") || strings.Contains(page.body, `name="plan"`) {
		t.Errorf("who has no passkey: %s", page.body)
	}
	a.register(b).is(t, http.StatusSeeOther)
	if page := b.planned(); !strings.Contains(page.body, "made in it proves nothing") || strings.Contains(page.body, `name="plan"`) {
		t.Errorf("whose passkey is of this session: %s", page.body)
	}
	challenge, state := a.options(b, "/break-glass/challenge")
	made := url.Values{"plan": {b.cookies["__Host-ebb-glass"]}, "nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/break-glass")}, "assertion": {a.get(challenge)}, "state": {state}}
	b.do(http.MethodPost, "/break-glass", made, nil).is(t, http.StatusForbidden, "made in this session")
	b = h.signedInAnew("out")
	at := a.breaks(b)
	b.get(at).is(t, http.StatusOK, "INC-7", "&lt;b&gt;stand&lt;/b&gt;", "The signature holds", "0 of at most 5", "End it now")
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
	page.is(t, http.StatusOK, "Alone, under break-glass", "I need it")
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
	alone(url.Values{"target": {"eu/**"}}).is(t, http.StatusForbidden, "needs it")
	signed := sign("approve-alone")
	signed.Set("target", "eu")
	alone(signed).is(t, http.StatusUnprocessableEntity, "exactly as it stands")
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
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "yes, alone, under break-glass")
	b.get("/requests/"+r.ID+"/seen/out").is(t, http.StatusOK, "alone, under break-glass", "The signature holds")
	ended(t, h, b, at, r)
}

// ended is the rest of the walk: the period ends, and somebody else reviews it.
func ended(t *testing.T, h *house, b *browser, at string, r broker.Request) {
	t.Helper()
	aud := h.as(brokertest.Auditor)
	aud.get(at).is(t, http.StatusOK, "1 of at most 5", "orders:eu/**:write for", "/requests/"+r.ID, "End it now", "The signature holds")
	b.send(b.get(at), at+"/end", nil).is(t, http.StatusSeeOther)
	b.get("/requests/"+r.ID).is(t, http.StatusNotFound)
	b.get(at).is(t, http.StatusOK, "waits for its review", "Ended")
	b.get("/queue").is(t, http.StatusOK, "was used and waits for its review", "1 time,")
	h.Clock.Add(25 * time.Hour)
	aud = h.as(brokertest.Auditor)
	aud.get("/queue").is(t, http.StatusOK, "the review is overdue")
	aud.get("/break-glass").is(t, http.StatusOK, "review overdue", "INC-7")
	aud.send(aud.get(at), at+"/review", url.Values{"note": {""}}).is(t, http.StatusUnprocessableEntity, "Say in 1 to 500")
	aud.send(aud.get(at), at+"/review", url.Values{"note": {"As it should be."}}).is(t, http.StatusSeeOther)
	aud.get(at).is(t, http.StatusOK, "reviewed", "As it should be.")
	if page := aud.get("/queue"); strings.Contains(page.body, `class="glass"`) {
		t.Error("the line stays")
	}
	if page := h.as(brokertest.Viewer).get("/break-glass"); strings.Contains(page.body, "INC-7") {
		t.Error("a viewer sees what is over")
	}
}

// TestBreakGlassOwnTask: neither the owner nor the runner of a task approves alone for it,
// whatever form they send.
func TestBreakGlassOwnTask(t *testing.T) {
	t.Parallel()
	h := glassHouse(t)
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
