package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/signin/oidc"
)

// TestBreakGlassPasskeyAlone: if only a passkey is accepted, the page offers
// nothing else.
func TestBreakGlassPasskeyAlone(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := newFixture(t, brokertest.Config{Start: o.at.Now(), BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}, Passkey: true}}, o.method(t, nil))
	b := h.browser()
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	b.get("/break-glass").is(t, http.StatusOK, "You cannot start break-glass now: it needs a passkey that you added before this session, and you have none.")
	if page := b.planned(); !strings.Contains(page.body, "Break-glass needs a passkey, and you have none") || strings.Contains(page.body, "/break-glass/again") {
		t.Errorf("who has no passkey: %s", page.body)
	}
}

// TestBreakGlassAnew: without a passkey, a sign-in at the identity provider is
// accepted once, if it was made after the plan.
//
//ebb:invariant I7 A new sign-in proves only the break-glass plan for which it was made
func TestBreakGlassAnew(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := newFixture(t, brokertest.Config{Start: o.at.Now(), BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}}}, o.method(t, func(c *oidc.Config) { c.ACRValues = []string{"phr"} }))
	b := h.browser()
	o.signIn(t, b, attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
	h.Clock.Add(time.Second)
	if page := b.get("/break-glass"); strings.Contains(page.body, "You cannot start break-glass now") {
		t.Error(page.body)
	}
	page := b.planned()
	page.is(t, http.StatusOK, `href="/break-glass/again"`, "sign in again at your identity provider")
	plan := b.cookies["__Host-ebb-glass"]
	send := func(plan string) answer {
		f := url.Values{"plan": {plan}, "nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/break-glass")}}
		return b.do(http.MethodPost, "/break-glass", f, nil)
	}
	send(plan).is(t, http.StatusForbidden, "before you planned the period") // a recent ordinary sign-in is not enough
	prove := func(claims attesttest.Claims) answer {
		h.Clock.Add(time.Second)
		o.at.Set(h.Clock.Now())
		led := b.get("/break-glass/again")
		led.is(t, http.StatusSeeOther)
		o.out(t, b, led.Header.Get("Location"))
		if o.asked.Get("max_age") != "0" || o.asked.Get("acr_values") != "phr" {
			t.Errorf("asked %v", o.asked)
		}
		o.token = func() string { return o.issuer.Token(o.claims(claims)) }
		return o.back(b, nil)
	}
	if weak := prove(attesttest.Claims{"acr": "pwd"}); weak.StatusCode == http.StatusSeeOther {
		send(plan).is(t, http.StatusForbidden)
	}
	// A sign-in for another purpose, however recent, is no proof for this plan.
	asked, err := h.Broker.ReadBreakGlassPlan(broker.Principal{ID: "sso:ann", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/signin/oidc?again=1", "/signin/oidc?again=1&for=brk_" + strings.Repeat("0", 32), "/signin/oidc?for=" + asked.ID} {
		h.Clock.Add(time.Second)
		o.at.Set(h.Clock.Now())
		o.signInBy(t, b, path, attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
		if page := b.get("/break-glass/plan"); strings.Contains(page.body, "Start break-glass</button>") {
			t.Errorf("%s: the form is there", path)
		}
		send(plan).is(t, http.StatusForbidden, "for another purpose")
	}
	a := prove(attesttest.Claims{"acr": "phr"})
	a.is(t, http.StatusSeeOther)
	if to := a.Header.Get("Location"); to != "/break-glass/plan" {
		t.Fatalf("led to %s", to)
	}
	page = b.get("/break-glass/plan")
	page.is(t, http.StatusOK, "identity provider for this period", "Start break-glass</button>")
	b.send(page, "/break-glass", nil).is(t, http.StatusSeeOther)
	gs, err := h.Broker.BreakGlasses(t.Context(), h.Principals[brokertest.Auditor], broker.BreakGlassFilter{})
	if err != nil || len(gs) != 1 || gs[0].Person != "sso:ann" || gs[0].ACR != "phr" || gs[0].AuthAt.IsZero() {
		t.Fatalf("%+v, %v", gs, err)
	}
	// Signing out ends the period; signing in again does not reopen it.
	b.send(b.get("/queue"), "/signout", nil).is(t, http.StatusSeeOther)
	gs, err = h.Broker.BreakGlasses(t.Context(), h.Principals[brokertest.Auditor], broker.BreakGlassFilter{})
	if err != nil || gs[0].EndedAt.IsZero() {
		t.Fatalf("%+v, %v", gs, err)
	}
	h.Clock.Add(time.Second)
	o.at.Set(h.Clock.Now())
	o.signIn(t, b, attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
	send(plan).is(t, http.StatusForbidden, "for another purpose")
	b.cookies["__Host-ebb-glass"] = plan
	prove(attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
	send(plan).is(t, http.StatusConflict) // one plan starts one period
	if h.began() != 1 {
		t.Error("begun again")
	}
}

// TestBreakGlassLosesGroup: a person who has left the group has no open period
// any more.
func TestBreakGlassLosesGroup(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := newFixture(t, brokertest.Config{Start: o.at.Now(), BreakGlass: approval.BreakGlassConfig{Groups: []string{"web"}}}, o.method(t, nil))
	b := h.browser()
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	h.Clock.Add(time.Second)
	b.planned()
	h.Clock.Add(time.Second)
	o.at.Set(h.Clock.Now())
	o.out(t, b, b.get("/break-glass/again").Header.Get("Location"))
	o.token = func() string { return o.issuer.Token(o.claims(nil)) }
	o.back(b, nil).is(t, http.StatusSeeOther)
	b.send(b.get("/break-glass/plan"), "/break-glass", nil).is(t, http.StatusSeeOther)
	b.get("/queue").is(t, http.StatusOK, "Break-glass is open")
	h.Clock.Add(time.Minute)
	o.at.Set(h.Clock.Now())
	o.signIn(t, h.browser(), attesttest.Claims{"groups": []string{"approvers"}}) // in another browser, so that this one does not know it yet
	o.signIn(t, b, attesttest.Claims{"groups": []string{"approvers"}}).is(t, http.StatusSeeOther)
	b.get("/queue").is(t, http.StatusOK, "is not reviewed yet")
	if _, open, err := h.Broker.OpenBreakGlass(t.Context(), broker.Principal{ID: "sso:ann", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"web"}}); open || err != nil {
		t.Errorf("open: %v, %v", open, err)
	}
}
