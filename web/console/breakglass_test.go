package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/attest/attesttest"
	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/scopes"
	"ebb/web/console/passkey"
	"ebb/web/signin/oidc"
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

// TestBreakGlassForged: nothing else than the form of the page, with a passkey's signature
// of just that, from that person, in that session, now and once, begins anything.
func TestBreakGlassForged(t *testing.T) {
	t.Parallel()
	h := glassHouse(t)
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	other, theirs := h.as(brokertest.Second), newAuthenticator(t)
	theirs.register(other).is(t, http.StatusSeeOther)
	b, other = h.signedInAnew(brokertest.Approver), h.signedInAnew(brokertest.Second)
	r := h.asked("orders:eu/1:write")
	good := func() url.Values { return a.signs(b, b.planned()) }
	post := func(form url.Values, change func(*http.Request)) answer {
		return b.do(http.MethodPost, "/break-glass", form, change)
	}
	for name, change := range map[string]func(url.Values){
		"no proof":         func(f url.Values) { f.Set("assertion", "") },
		"no state":         func(f url.Values) { f.Set("state", "") },
		"garbage":          func(f url.Values) { f.Set("assertion", "{}") },
		"no plan":          func(f url.Values) { f.Set("plan", "") },
		"another plan":     func(f url.Values) { f.Set("plan", b.fill(b.planned(), "/break-glass", nil).Get("plan")) },
		"a plan of theirs": func(f url.Values) { f.Set("plan", other.fill(other.planned(), "/break-glass", nil).Get("plan")) },
		"a changed plan":   func(f url.Values) { f.Set("plan", "e30"+f.Get("plan")) },
		"no nonce":         func(f url.Values) { f.Del("nonce") },
		"nonce of another": func(f url.Values) {
			f.Set("nonce", other.fill(other.get("/break-glass"), "/break-glass/plan", nil).Get("nonce"))
		},
		"two assertions": func(f url.Values) { f.Add("assertion", f.Get("assertion")) },
		"somebody's key": func(f url.Values) {
			c, s := a.options(b, "/break-glass/challenge")
			f.Set("assertion", theirs.get(c))
			f.Set("state", s)
		},
		"their challenge": func(f url.Values) {
			o := theirs.signs(other, other.planned())
			f.Set("assertion", o.Get("assertion"))
			f.Set("state", o.Get("state"))
		},
		"another decision": func(f url.Values) {
			c, s := a.options(b, "/requests/"+r.ID+"/challenge?choice=approve&digest="+r.Digest)
			f.Set("assertion", a.get(c))
			f.Set("state", s)
		},
		"an old challenge": func(url.Values) { h.Clock.Add(2*time.Minute + time.Second) },
		"an old plan":      func(url.Values) { h.Clock.Add(10*time.Minute + time.Second) },
		"nobody looked": func(f url.Values) {
			v := *a
			v.flags = 0x01
			c, s := a.options(b, "/break-glass/challenge")
			f.Set("assertion", v.get(c))
			f.Set("state", s)
			a.count = v.count
		},
		"from another site": func(f url.Values) {
			v := *a
			v.origin = "https://evil.test"
			c, s := a.options(b, "/break-glass/challenge")
			f.Set("assertion", v.get(c))
			f.Set("state", s)
			a.count = v.count
		},
	} {
		form := good()
		change(form)
		if got := post(form, nil); got.StatusCode < 400 || got.StatusCode >= 500 {
			t.Errorf("%s: %d", name, got.StatusCode)
		}
	}
	for name, header := range map[string][2]string{
		"cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"}, "by a script": {"Sec-Fetch-Mode", "cors"}, "of an image": {"Sec-Fetch-Dest", "image"}, "another origin": {"Origin", "https://evil.test"},
	} {
		post(good(), func(r *http.Request) { r.Header.Set(header[0], header[1]) }).is(t, http.StatusForbidden)
		if h.began() != 0 {
			t.Fatalf("%s: begun", name)
		}
	}
	act, form := b.cookies["__Host-ebb-act"], good()
	delete(b.cookies, "__Host-ebb-act")
	post(form, nil).is(t, http.StatusForbidden)
	b.cookies["__Host-ebb-act"] = act
	if got := b.get("/break-glass?" + good().Encode()); got.StatusCode == http.StatusSeeOther || h.began() != 0 {
		t.Error("an address begins it")
	}
	// In another session of the same person.
	twin := h.as(brokertest.Approver)
	twin.do(http.MethodPost, "/break-glass", good(), nil).is(t, http.StatusConflict)
	// Who may not, whatever they hold.
	for _, who := range []string{brokertest.Runner, brokertest.Viewer, brokertest.Auditor, brokertest.Operator} {
		w := h.as(who)
		w.cookies["__Host-ebb-glass"] = b.cookies["__Host-ebb-glass"]
		for _, path := range []string{"/break-glass/plan", "/break-glass/challenge"} {
			w.get(path).is(t, http.StatusForbidden)
		}
		for _, path := range []string{"/break-glass/plan", "/break-glass"} {
			f := good()
			f.Set("nonce", h.console.NonceFor(w.cookies["__Host-ebb-sess"], path))
			f.Set("incident", "INC-7")
			f.Set("reason", glassWhy)
			w.do(http.MethodPost, path, f, nil).is(t, http.StatusForbidden)
		}
	}
	if n := h.began(); n != 0 {
		t.Fatalf("%d began", n)
	}
	// Eight at once: one. And what it was begun by begins no other.
	form = good()
	var wg sync.WaitGroup
	won := make(chan bool, 8)
	for range 8 {
		same := &browser{h: h, cookies: map[string]string{}}
		for k, v := range b.cookies {
			same.cookies[k] = v
		}
		wg.Go(func() {
			won <- same.do(http.MethodPost, "/break-glass", form, nil).StatusCode == http.StatusSeeOther
		})
	}
	wg.Wait()
	close(won)
	n := 0
	for w := range won {
		if w {
			n++
		}
	}
	if n != 1 || h.began() != 1 {
		t.Fatalf("%d won, %d began", n, h.began())
	}
	if err := h.Broker.LeaveBreakGlass(t.Context(), h.Principals[brokertest.Approver]); err != nil {
		t.Fatal(err)
	}
	page := b.planned()
	again := b.fill(page, "/break-glass", url.Values{"assertion": form["assertion"], "state": form["state"]})
	post(again, nil).is(t, http.StatusForbidden)
	again.Set("plan", form.Get("plan"))
	again.Set("nonce", b.fill(b.planned(), "/break-glass", nil).Get("nonce"))
	if got := post(again, nil); got.StatusCode < 400 {
		t.Errorf("the same proof again: %d", got.StatusCode)
	}
	if h.began() != 1 {
		t.Error("begun again")
	}
}

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
