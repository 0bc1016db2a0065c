package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	h.browser().get("/settings").is(t, http.StatusSeeOther)
	for id, says := range map[string][]string{
		brokertest.Approver: {"approver", "approvers", "by link", "this browser"},
		brokertest.Auditor:  {"auditor", "none"},
		brokertest.Operator: {"operator"},
	} {
		h.as(id).get("/settings").is(t, http.StatusOK, append(says, id, "Settings")...)
	}
}

// TestLook: preferences are stored in the browser, and only valid ones.
func TestLook(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	look := func(theme, zone string) answer {
		return b.send(b.get("/settings"), "/settings/look", url.Values{"theme": {theme}, "zone": {zone}})
	}
	look("dark", " America/New_York ").is(t, http.StatusSeeOther)
	b.get("/settings").is(t, http.StatusOK, `data-theme="dark"`, "America/New_York", `value="dark" checked`)
	b.get("/queue").is(t, http.StatusOK, `data-theme="dark"`)
	for _, bad := range []string{"DARK", "dark;x", "light dark", `"><script>`} {
		if a := look(bad, ""); a.StatusCode != http.StatusBadRequest || len(a.Cookies()) > 0 {
			t.Errorf("theme %q: %d", bad, a.StatusCode)
		}
	}
	for _, bad := range []string{"Local", "../../etc/passwd", "/etc/localtime", "Mars/Phobos", "\x00", strings.Repeat("A", 65), `"><script>alert(1)</script>`, "UTC\r\nSet-Cookie: x=y"} {
		a := look("light", bad)
		a.is(t, http.StatusUnprocessableEntity, "Unknown time zone", `aria-invalid="true"`)
		if len(a.Cookies()) > 0 || strings.Contains(a.body, "<script>alert") {
			t.Errorf("zone %q: %v", bad, a.Cookies())
		}
	}
	a := look("", "")
	a.is(t, http.StatusSeeOther)
	for _, c := range a.Cookies() {
		if c.MaxAge >= 0 {
			t.Errorf("%s is kept", c.Name)
		}
	}
	if a := b.get("/settings"); strings.Contains(a.body, "data-theme") {
		t.Error("the theme of the system has a name")
	}
	// Pages are shown also with a cookie of another program.
	for _, bad := range []string{"../../etc/passwd", "Local", "x;y", strings.Repeat("x", 3000)} {
		b.cookies["ebb-zone"], b.cookies["ebb-theme"] = bad, bad
		b.get("/settings").is(t, http.StatusOK, "Times are shown in UTC")
	}
}

var sessionField = regexp.MustCompile(`name="session" value="([^"]*)"`)

// ids returns the sessions that a settings page lists, in its order.
func ids(a answer) []string {
	var out []string
	for _, m := range sessionField.FindAllStringSubmatch(a.body, -1) {
		out = append(out, html.UnescapeString(m[1]))
	}
	return out
}

func TestSessionsEndedByHand(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	old := h.as(brokertest.Approver)
	h.Clock.Add(31 * time.Minute) // it has expired
	here, there, third := h.as(brokertest.Approver), h.as(brokertest.Approver), h.as(brokertest.Approver)
	other := h.as(brokertest.Second)
	theirs := ids(other.get("/settings"))
	page := here.get("/settings")
	if got := ids(page); len(got) != 3 || len(theirs) != 1 {
		t.Fatalf("listed: %v and %v", got, theirs)
	}
	_ = old
	// Ids of other people's sessions and invalid ids end nothing.
	for _, id := range []string{theirs[0], "x", "' OR '1'='1", strings.Repeat("a", 5000)} {
		here.send(here.get("/settings"), "/settings/sessions", url.Values{"session": {id}}).is(t, http.StatusSeeOther)
	}
	other.get("/settings").is(t, http.StatusOK)
	there.get("/settings").is(t, http.StatusOK)
	// Without the SameSite=Strict cookie nothing is ended.
	form := here.fill(page, "/settings/sessions", url.Values{"session": {""}})
	here.do(http.MethodPost, "/settings/sessions", form, func(r *http.Request) { dropCookie(r, "__Host-ebb-act") }).is(t, http.StatusForbidden)
	there.get("/settings").is(t, http.StatusOK)
	// One session, chosen from the list of the other browser.
	mine := map[string]bool{}
	for _, id := range ids(page) {
		mine[id] = true
	}
	var one string
	for _, part := range strings.Split(page.body, "<li") {
		if m := sessionField.FindStringSubmatch(part); m != nil && mine[m[1]] && !strings.Contains(part, "this browser") {
			one = m[1]
			break
		}
	}
	here.send(here.get("/settings"), "/settings/sessions", url.Values{"session": {one}}).is(t, http.StatusSeeOther)
	if got := ids(here.get("/settings")); len(got) != 2 {
		t.Fatalf("after one: %v", got)
	}
	// All other sessions.
	here.send(here.get("/settings"), "/settings/sessions", url.Values{"session": {""}}).is(t, http.StatusSeeOther)
	here.get("/settings").is(t, http.StatusOK)
	there.get("/settings").is(t, http.StatusSeeOther)
	third.get("/settings").is(t, http.StatusSeeOther)
	other.get("/settings").is(t, http.StatusOK)
	// This session.
	last := ids(here.get("/settings"))
	a := here.send(here.get("/settings"), "/settings/sessions", url.Values{"session": {last[0]}})
	a.is(t, http.StatusSeeOther)
	if a.Header.Get("Location") != "/signin" || here.cookies["__Host-ebb-sess"] != "" {
		t.Errorf("led to %s with %v", a.Header.Get("Location"), here.cookies)
	}
	entries, err := h.Broker.Entries(t.Context(), h.Principals[brokertest.Auditor], broker.EntryFilter{Kind: "session.ended", Actor: brokertest.Approver})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d ends on the record, want 3", n)
	}
}

// TestBrowserText: the User-Agent header is untrusted text.
func TestBrowserText(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	for text, says := range map[string]string{
		"": "Unknown browser", `"><script>alert(1)</script>`: "&lt;script&gt;", "\u202egnp.exe": "gnp.exe",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36": "Chrome on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/156.0 Safari/537.36 Edg/156.0":                    "Edge on Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Mobile/15E148 Safari/604.1":    "Safari on iPhone",
	} {
		b := h.browser()
		l, _, err := h.links.Make(t.Context(), h.signed(h.Principals[brokertest.Auditor]))
		if err != nil {
			t.Fatal(err)
		}
		page := b.get(strings.TrimPrefix(l.Reveal(), h.Issuer))
		b.do(http.MethodPost, "/signin/link", b.fill(page, "/signin/link", nil), func(r *http.Request) { r.Header["User-Agent"] = []string{text} }).is(t, http.StatusSeeOther)
		a := b.get("/settings")
		a.is(t, http.StatusOK, says)
		if strings.Contains(a.body, "\u202e") || strings.Contains(a.body, "<script>alert") {
			t.Errorf("%q is drawn as it is", text)
		}
	}
}
