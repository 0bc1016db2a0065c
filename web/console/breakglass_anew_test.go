package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"ebb/attest/attesttest"
	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/web/signin/oidc"
)

// TestBreakGlassPasskeyAlone: where nothing but a passkey counts, the page leads nowhere else.
func TestBreakGlassPasskeyAlone(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := newHouse(t, brokertest.Config{Start: o.at.Now(), BreakGlass: broker.BreakGlassConfig{Groups: []string{"approvers"}, Passkey: true}}, o.method(t, nil))
	b := h.browser()
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	if page := b.planned(); !strings.Contains(page.body, "This takes a passkey, and you have none") || strings.Contains(page.body, "/break-glass/again") {
		t.Errorf("who has no passkey: %s", page.body)
	}
}

// TestBreakGlassAnew: without a passkey, a sign-in at the identity provider counts that
// came after what it is for was said, and once.
func TestBreakGlassAnew(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := newHouse(t, brokertest.Config{Start: o.at.Now(), BreakGlass: broker.BreakGlassConfig{Groups: []string{"approvers"}}}, o.method(t, func(c *oidc.Config) { c.ACRValues = []string{"phr"} }))
	b := h.browser()
	o.signIn(t, b, attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
	h.Clock.Add(time.Second)
	page := b.planned()
	page.is(t, http.StatusOK, `href="/break-glass/again"`, "First prove again who you are")
	plan := b.cookies["__Host-ebb-glass"]
	send := func(plan string) answer {
		f := url.Values{"plan": {plan}, "nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/break-glass")}}
		return b.do(http.MethodPost, "/break-glass", f, nil)
	}
	send(plan).is(t, http.StatusForbidden, "before you said what for") // however fresh the sign-in is
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
	// What was proved for something else, however freshly, is no proof of this.
	asked, err := h.Broker.ReadBreakGlassPlan(broker.Principal{ID: "sso:ann", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/signin/oidc?again=1", "/signin/oidc?again=1&for=brk_" + strings.Repeat("0", 32), "/signin/oidc?for=" + asked.ID} {
		h.Clock.Add(time.Second)
		o.at.Set(h.Clock.Now())
		o.signInBy(t, b, path, attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
		if page := b.get("/break-glass/plan"); strings.Contains(page.body, "Break the glass</button>") {
			t.Errorf("%s: the form is there", path)
		}
		send(plan).is(t, http.StatusForbidden, "for something else")
	}
	a := prove(attesttest.Claims{"acr": "phr"})
	a.is(t, http.StatusSeeOther)
	if to := a.Header.Get("Location"); to != "/break-glass/plan" {
		t.Fatalf("led to %s", to)
	}
	page = b.get("/break-glass/plan")
	page.is(t, http.StatusOK, "since you said what for", "Break the glass</button>")
	b.send(page, "/break-glass", nil).is(t, http.StatusSeeOther)
	gs, err := h.Broker.BreakGlasses(t.Context(), h.Principals[brokertest.Auditor], broker.BreakGlassFilter{})
	if err != nil || len(gs) != 1 || gs[0].Person != "sso:ann" || gs[0].ACR != "phr" || gs[0].AuthAt.IsZero() {
		t.Fatalf("%+v, %v", gs, err)
	}
	// Signing out ends it; signing in again does not bring it back.
	b.send(b.get("/queue"), "/signout", nil).is(t, http.StatusSeeOther)
	gs, err = h.Broker.BreakGlasses(t.Context(), h.Principals[brokertest.Auditor], broker.BreakGlassFilter{})
	if err != nil || gs[0].EndedAt.IsZero() {
		t.Fatalf("%+v, %v", gs, err)
	}
	h.Clock.Add(time.Second)
	o.at.Set(h.Clock.Now())
	o.signIn(t, b, attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
	send(plan).is(t, http.StatusForbidden, "for something else")
	b.cookies["__Host-ebb-glass"] = plan
	prove(attesttest.Claims{"acr": "phr"}).is(t, http.StatusSeeOther)
	send(plan).is(t, http.StatusConflict) // one plan, one period
	if h.began() != 1 {
		t.Error("begun again")
	}
}

// TestBreakGlassLosesGroup: who is not in the group any more has no period any more.
func TestBreakGlassLosesGroup(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := newHouse(t, brokertest.Config{Start: o.at.Now(), BreakGlass: broker.BreakGlassConfig{Groups: []string{"web"}}}, o.method(t, nil))
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
	o.signIn(t, h.browser(), attesttest.Claims{"groups": []string{"approvers"}}) // elsewhere: nothing is known of it here yet
	o.signIn(t, b, attesttest.Claims{"groups": []string{"approvers"}}).is(t, http.StatusSeeOther)
	b.get("/queue").is(t, http.StatusOK, "waits for its review")
	if _, open, err := h.Broker.OpenBreakGlass(t.Context(), broker.Principal{ID: "sso:ann", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"web"}}); open || err != nil {
		t.Errorf("open: %v, %v", open, err)
	}
}
