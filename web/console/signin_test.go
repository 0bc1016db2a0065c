package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.browser()
	a := b.get("/nowhere?x=1")
	a.is(t, http.StatusNotFound, "no page or resource at this path", "<h1>")
	for _, path := range []string{"/v1/nowhere", "/oauth2/nowhere", "/.well-known/nowhere", "/problems/nowhere"} {
		if a := b.get(path); a.StatusCode/100 != 4 || strings.Contains(a.body, "<h1>") {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := b.do(http.MethodGet, "/nowhere", nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "cors") }); strings.Contains(a.body, "<h1>") {
		t.Errorf("a program was drawn a page: %s", a.body)
	}
	a = b.get("/queue?state=all")
	a.is(t, http.StatusSeeOther)
	if a.Header.Get("Location") != "/signin" {
		t.Fatal(a.Header)
	}
	b.get("/signin").is(t, http.StatusOK, "ebb console")
	l, _, err := h.links.Make(t.Context(), h.signed(h.Principals[brokertest.Approver]))
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(l.Reveal(), h.Issuer)
	// Opening a link does not use it up.
	for range 3 {
		b.get(path).is(t, http.StatusOK, "Sign in as ann")
	}
	page := b.get(path)
	a = b.send(page, "/signin/link", nil)
	a.is(t, http.StatusSeeOther)
	if a.Header.Get("Location") != "/queue?state=all" {
		t.Errorf("led to %s", a.Header.Get("Location"))
	}
	for _, c := range a.Cookies() {
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite == http.SameSiteNoneMode || c.SameSite == 0 {
			t.Errorf("cookie %+v", c)
		}
	}
	b.get("/queue").is(t, http.StatusOK, "ann", "Queue")
	// A link works once.
	h.browser().send(page, "/signin/link", nil).is(t, http.StatusUnauthorized, "already used", "ebb console")
	a = b.send(b.get("/queue"), "/signout", nil)
	a.is(t, http.StatusSeeOther)
	b.get("/queue").is(t, http.StatusSeeOther)
}

func TestSignInRecorded(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	b.send(b.get("/queue"), "/signout", nil).is(t, http.StatusSeeOther)
	var kinds []string
	entries, err := h.Broker.Entries(t.Context(), h.Principals[brokertest.Auditor], broker.EntryFilter{Kind: "session.", Actor: brokertest.Approver})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
	}
	if strings.Join(kinds, " ") != "session.began session.ended" {
		t.Errorf("on the record: %v", kinds)
	}
}

// TestLinksForged: links cannot be forged, and their lifetime cannot be
// extended.
func TestLinksForged(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	l, _, err := h.links.Make(t.Context(), h.signed(h.Principals[brokertest.Approver]))
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimPrefix(l.Reveal(), h.Issuer+"/signin/link?t=")
	text, mac, _ := strings.Cut(good, ".")
	for _, bad := range []string{"", ".", text, text + ".", "." + mac, text + "." + mac + "A", text[1:] + "." + mac, strings.ToUpper(text) + "." + mac, strings.Repeat("A", 5000), "\x00.\x00"} {
		a := h.browser().do(http.MethodPost, "/signin/link", url.Values{"t": {bad}}, nil)
		if a.StatusCode != http.StatusUnauthorized || len(a.Cookies()) > 0 {
			t.Errorf("%.40q: %d", bad, a.StatusCode)
		}
	}
	// A token in the query does not sign in.
	h.browser().do(http.MethodPost, "/signin/link?t="+good, url.Values{}, nil).is(t, http.StatusUnauthorized)
	h.browser().get("/signin/link/callback?t="+good).is(t, http.StatusUnauthorized)
	h.Clock.Add(2*time.Minute + time.Second)
	h.browser().do(http.MethodPost, "/signin/link", url.Values{"t": {good}}, nil).is(t, http.StatusUnauthorized)
}

// TestSessionEnds: a session ends after 30 minutes without activity, and after
// eight hours in any case.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	idle := h.as(brokertest.Approver)
	h.Clock.Add(29 * time.Minute)
	idle.get("/queue").is(t, http.StatusOK)
	h.Clock.Add(29 * time.Minute)
	idle.get("/queue").is(t, http.StatusOK)
	h.Clock.Add(30 * time.Minute)
	idle.get("/queue").is(t, http.StatusSeeOther)
	// A refused request is no activity, because an open page may retry again
	// and again.
	open := h.as(brokertest.Approver)
	for range 3 {
		h.Clock.Add(14 * time.Minute)
		open.do(http.MethodGet, "/events", nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	}
	open.get("/queue").is(t, http.StatusSeeOther)
	busy := h.as(brokertest.Approver)
	for range 8*3 - 1 {
		h.Clock.Add(20 * time.Minute)
		busy.get("/queue").is(t, http.StatusOK)
	}
	h.Clock.Add(20 * time.Minute)
	busy.get("/queue").is(t, http.StatusSeeOther)
}

// TestWhereToGo: an address cannot redirect to another site.
func TestWhereToGo(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	for _, to := range []string{"//evil.test/queue", "https://evil.test", "/signin", "/v1/tasks", "queue", "/queueX"} {
		b := h.browser()
		b.cookies["__Host-ebb-to"] = to
		l, _, err := h.links.Make(t.Context(), h.signed(h.Principals[brokertest.Approver]))
		if err != nil {
			t.Fatal(err)
		}
		a := b.send(b.get(strings.TrimPrefix(l.Reveal(), h.Issuer)), "/signin/link", nil)
		if got := a.Header.Get("Location"); got != "/queue" {
			t.Errorf("%q led to %q", to, got)
		}
	}
}

// TestLinkLeadsToAPage: a sign-in link may name the request page to open, also
// when opened from a file, and no other target.
func TestLinkLeadsToAPage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	for to, want := range map[string]string{
		"/requests/" + r.ID: "/requests/" + r.ID, "": "/settings",
		"//evil.test/requests/x": "/settings", "https://evil.test/requests/x": "/settings", "/signin/link": "/settings", "/events": "/settings",
		"/nowhere": "/settings", "requests/" + r.ID: "/settings", "/requests/\r\nx: y": "/settings",
	} {
		b := h.browser()
		b.get("/settings").is(t, http.StatusSeeOther) // the person requested another page before
		l, _, err := h.links.Make(t.Context(), h.signed(h.Principals[brokertest.Approver]))
		if err != nil {
			t.Fatal(err)
		}
		page := b.do(http.MethodGet, strings.TrimPrefix(l.Reveal(), h.at)+"&"+url.Values{"to": {to}}.Encode(), nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		page.is(t, http.StatusOK, "Sign in as ann")
		a := b.send(page, "/signin/link", nil)
		if a.is(t, http.StatusSeeOther); a.Header.Get("Location") != want {
			t.Errorf("%q led to %s", to, a.Header.Get("Location"))
		}
	}
}
