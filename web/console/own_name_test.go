package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// loopback is an ebb on one machine.
func loopback(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t, brokertest.Config{Issuer: "http://127.0.0.1:8420"})
	if h.at == h.Issuer || !strings.HasSuffix(h.at, ".localhost:8420") {
		t.Fatal(h.at)
	}
	return h
}

// TestOwnNameOnLoopback: the console has its own host name, where people sign
// in, send forms and use passkeys.
func TestOwnNameOnLoopback(t *testing.T) {
	t.Parallel()
	h := loopback(t)
	b := h.as(brokertest.Approver)
	b.get("/queue").is(t, http.StatusOK, "ann")
	a := newAuthenticator(t)
	a.origin, a.rp = h.at, strings.TrimSuffix(strings.TrimPrefix(h.at, "http://"), ":8420")
	a.register(b).is(t, http.StatusSeeOther)
	b.get("/settings").is(t, http.StatusOK, "My key")
	wrong := newAuthenticator(t)
	wrong.origin, wrong.rp = h.Issuer, "localhost"
	if got := wrong.register(b); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a passkey of another name: %d", got.StatusCode)
	}
	b.send(b.get("/queue"), "/signout", nil).is(t, http.StatusSeeOther)
}

// TestElsewhereOnLoopback: at the address of the API, and at other host names
// of this machine, the console neither reads nor sets cookies, changes nothing,
// and does not reveal its name.
func TestElsewhereOnLoopback(t *testing.T) {
	t.Parallel()
	h := loopback(t)
	b := h.as(brokertest.Approver)
	page := b.get("/queue")
	name := strings.TrimPrefix(h.at, "http://")
	label, _, _ := strings.Cut(name, ".")
	l, _, err := h.links.Make(t.Context(), h.signed(h.Principals[brokertest.Approver]))
	if err != nil {
		t.Fatal(err)
	}
	link := strings.TrimPrefix(l.Reveal(), h.at)
	paths := map[string]string{"/": "GET", "/queue": "GET", link: "GET", "/signin": "GET", "/nowhere": "GET", "/signin/link": "POST", "/signout": "POST", "/settings/look": "POST"}
	for _, route := range h.console.Routes() {
		paths[strings.NewReplacer(":id", "x", ":voter", "x", ":writer", "x", ":seq", "1").Replace(route.Path)] = route.Method
	}
	for _, host := range []string{"127.0.0.1:8420", "localhost:8420", "[::1]:8420", "ebb.localhost:8420", "evil.localhost:8420", label + ".localhost:9000", "x." + name} {
		for path, method := range paths {
			if strings.HasPrefix(path, "/assets/") {
				continue // they are the same for all visitors
			}
			form := url.Values{}
			switch path {
			case "/signout", "/settings/look":
				form = b.fill(page, "/signout", nil)
			case "/signin/link":
				form = url.Values{"t": {strings.TrimPrefix(link, "/signin/link?t=")}}
			}
			// Everything else is as sent by a browser with the session.
			got := b.do(method, path, form, func(r *http.Request) {
				r.Host = host
				if method == http.MethodPost {
					r.Header.Set("Origin", "http://"+host)
				}
			})
			if got.StatusCode != http.StatusMisdirectedRequest && path != "/nowhere" {
				t.Errorf("%s %s at %s: %d", method, path, host, got.StatusCode)
			}
			if len(got.Cookies()) > 0 || got.Header.Get("Location") != "" || strings.Contains(got.body, label) || strings.Contains(got.body, "ann") {
				t.Errorf("%s %s at %s: %v %s", method, path, host, got.Header, got.body)
			}
		}
	}
	b.get("/queue").is(t, http.StatusOK) // the session is still open
	b.send(b.get(link), "/signin/link", nil).is(t, http.StatusSeeOther)
}

// TestFormFromOtherNames: a page at another host name of this machine, or at
// the same name and another port, cannot send a form of the console. Browsers
// treat the second as the same site.
//
//ebb:invariant I7 A console form is accepted only if the browser sent it from a page of the console
func TestFormFromOtherNames(t *testing.T) {
	t.Parallel()
	h := loopback(t)
	b := h.as(brokertest.Approver)
	page := b.get("/queue")
	host := strings.TrimSuffix(h.at, ":8420")
	for name, from := range map[string][2]string{
		"an address": {"http://127.0.0.1:8420", "cross-site"}, "another name": {"http://evil.localhost:8420", "cross-site"},
		"a name that browsers took for a sibling": {"http://evil.localhost:8420", "same-site"},
		"its name at another port":                {host + ":9000", "same-site"}, "its name without a port": {host, "same-site"}, "its name by https": {strings.Replace(h.at, "http:", "https:", 1), "same-site"},
		"its site, as it says": {host + ":9000", "same-origin"}, "its origin, as another says": {h.at, "same-site"},
	} {
		got := b.do(http.MethodPost, "/signout", b.fill(page, "/signout", nil), func(r *http.Request) {
			r.Header.Set("Origin", from[0])
			r.Header.Set("Sec-Fetch-Site", from[1])
		})
		if got.StatusCode != http.StatusForbidden {
			t.Errorf("from %s: %d", name, got.StatusCode)
		}
	}
	// A second cookie of the same name invalidates the session, and never
	// selects another one.
	got := b.do(http.MethodGet, "/queue", nil, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "__Host-ebb-sess", Value: "tossed"}) })
	got.is(t, http.StatusSeeOther)
	b.get("/queue").is(t, http.StatusOK)
}

// TestProgramsApart: API routes do not exist in the console's origin.
func TestProgramsApart(t *testing.T) {
	t.Parallel()
	h := loopback(t)
	h.mux.Add(http.MethodGet, "/v1/x", nil)
	r := httptest.NewRequest(http.MethodGet, h.at+"/v1/x", nil)
	w := httptest.NewRecorder()
	if h.mux.ServeHTTP(w, r); w.Code != http.StatusMisdirectedRequest {
		t.Error(w.Code, w.Body)
	}
}
