package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestBreakGlassForged: only the form of the page, with a passkey signature
// over this plan, by this person, in this session, now and once, starts a
// period.
func TestBreakGlassForged(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
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
	if h.began() != 0 {
		t.Fatal("begun")
	}
	// In another session of the same person.
	twin := h.as(brokertest.Approver)
	twin.do(http.MethodPost, "/break-glass", good(), nil).is(t, http.StatusConflict)
}

// TestBreakGlassForm: only a form that a person sent from a page of this
// console starts a period.
func TestBreakGlassForm(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	// Without an identity provider only a passkey starts it: the page says so above the form.
	const cannot = "You cannot start break-glass now"
	b.get("/break-glass").is(t, http.StatusOK, cannot, "and you have none")
	a.register(b).is(t, http.StatusSeeOther)
	b.get("/break-glass").is(t, http.StatusOK, cannot, "Sign out and sign in again first")
	b = h.signedInAnew(brokertest.Approver)
	if page := b.get("/break-glass"); strings.Contains(page.body, cannot) {
		t.Error(page.body)
	}
	good := func() url.Values { return a.signs(b, b.planned()) }
	post := func(form url.Values, change func(*http.Request)) answer {
		return b.do(http.MethodPost, "/break-glass", form, change)
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
}

// TestBreakGlassOfOthers: people without the right cannot start a period with
// any form.
func TestBreakGlassOfOthers(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	b = h.signedInAnew(brokertest.Approver)
	good := func() url.Values { return a.signs(b, b.planned()) }
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
}

// TestBreakGlassFormOnce: of eight forms sent at once one starts a period, and
// its proof cannot start another.
func TestBreakGlassFormOnce(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	b = h.signedInAnew(brokertest.Approver)
	form := a.signs(b, b.planned())
	post := func(form url.Values, change func(*http.Request)) answer {
		return b.do(http.MethodPost, "/break-glass", form, change)
	}
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
