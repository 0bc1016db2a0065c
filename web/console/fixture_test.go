package console_test

import (
	"crypto/fips140"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/notify/webpush"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console"
	"github.com/ebb-broker/ebb/web/signin"
	"github.com/ebb-broker/ebb/web/signin/link"
)

// fixture is a whole ebb with its console and a clock controlled by the test.
type fixture struct {
	*brokertest.Env
	t       testing.TB
	mux     *web.Mux
	links   *link.Links
	console *console.Console
	at      string                  // public URL of the console
	serial  int                     // number of entries that tests wrote themselves
	change  func(*console.Config)   // changes to the console's configuration
	bounds  map[string][]scopes.Set // of people who are not configured
}

// rights returns the configured rights of a person, or those of their last sign-in.
func (h *fixture) rights(p people.Reach) broker.Principal {
	if who, known := h.Broker.Principal(p.Person); known {
		return who
	}
	out := broker.Principal{ID: p.Person, Groups: p.Groups, Also: p.Also, Bounds: h.bounds[p.Person]}
	for _, role := range p.Roles {
		out.Roles = append(out.Roles, broker.Role(role))
	}
	return out
}

func newFixture(t testing.TB, c brokertest.Config, methods ...func(*fixture) signin.Method) *fixture {
	t.Helper()
	return newFixtureWith(t, c, nil, methods...)
}

// newFixtureWith is a fixture with a changed console configuration.
func newFixtureWith(t testing.TB, c brokertest.Config, change func(*console.Config), methods ...func(*fixture) signin.Method) *fixture {
	t.Helper()
	h := &fixture{t: t, Env: brokertest.New(t, c)}
	if h.Store == nil { // the sessions are in the database of the approval store
		h.Store, _ = c.ApprovalStore.(*sqlstore.Store)
	}
	h.change = change
	h.open(t, methods...)
	return h
}

// open starts a console for the broker.
func (h *fixture) open(t testing.TB, methods ...func(*fixture) signin.Method) {
	t.Helper()
	var err error
	if h.at, err = web.OwnName(h.Issuer, h.Ring.Derive("console-name")); err != nil {
		t.Fatal(err)
	}
	if h.mux, err = web.New(web.Config{PublicURL: h.Issuer, PagesURL: h.at, Now: h.Clock.Now}); err != nil {
		t.Fatal(err)
	}
	h.links = link.New(link.Config{Broker: h.Broker, Base: h.at, Key: h.Ring.Derive("console-link"), Now: h.Clock.Now})
	ways := []signin.Method{h.links}
	for _, m := range methods {
		ways = append(ways, m(h))
	}
	cc := console.Config{Broker: h.Broker, Mux: h.mux, Sessions: h.Store, Passkeys: h.Store, Names: h.Store, Outbox: h.Store, Reach: h.Store, Rights: h.rights, Pushes: h.Store, TellsPeople: true, Key: h.Ring.Derive("console"), Methods: ways, Now: h.Clock.Now}
	if !fips140.Enforced() {
		if cc.Push, err = webpush.New(webpush.Config{Options: webpush.Options{Contact: "ops@example.com"}, Derive: h.Ring.Derive, Store: h.Store}); err != nil {
			t.Fatal(err)
		}
	}
	if h.change != nil {
		h.change(&cc)
	}
	h.console, err = console.New(cc)
	if err != nil {
		t.Fatal(err)
	}
	h.console.Register()
}

// browser simulates a browser: it stores cookies and sends the headers of
// browsers.
type browser struct {
	h       *fixture
	cookies map[string]string
}

// answer is a response to a browser.
type answer struct {
	*http.Response
	body string
}

func (h *fixture) browser() *browser { return &browser{h: h, cookies: map[string]string{}} }

// signed returns a principal who has authenticated just now.
func (h *fixture) signed(who broker.Principal) broker.Principal {
	who.AuthAt = h.Clock.Now()
	return who
}

// as returns the browser of a principal who has just signed in.
func (h *fixture) as(id string) *browser {
	h.t.Helper()
	b := h.browser()
	l, _, err := h.links.Make(h.t.Context(), h.signed(h.Principals[id]))
	if err != nil {
		h.t.Fatal(err)
	}
	page := b.get(strings.TrimPrefix(l.Reveal(), h.at))
	if a := b.send(page, "/signin/link", nil); a.StatusCode != http.StatusSeeOther {
		h.t.Fatalf("signing in as %s: %d %s", id, a.StatusCode, a.body)
	}
	return b
}

// do sends a request like a browser that follows a link or sends a form.
func (b *browser) do(method, path string, form url.Values, change func(*http.Request)) answer {
	b.h.t.Helper()
	r := httptest.NewRequest(method, b.h.at+path, strings.NewReader(form.Encode()))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	if method == http.MethodPost {
		r.Header.Set("Origin", b.h.at)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	b.h.mux.ServeHTTP(w, r)
	a := answer{Response: w.Result()}
	a.Request = r
	for _, c := range a.Cookies() {
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	body, err := io.ReadAll(a.Body)
	if err != nil {
		b.h.t.Fatal(err)
	}
	a.body = string(body)
	return a
}

func (b *browser) get(path string) answer {
	b.h.t.Helper()
	return b.do(http.MethodGet, path, nil, nil)
}

// send fills in the form of a page that posts to this path, and sends it.
func (b *browser) send(page answer, path string, fields url.Values) answer {
	b.h.t.Helper()
	return b.do(http.MethodPost, path, b.fill(page, path, fields), nil)
}

var (
	formTag  = regexp.MustCompile(`(?s)<form[^>]* action="([^"]*)".*?</form>`)
	inputTag = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// fill returns the hidden fields of the form at this path, with fields added.
func (b *browser) fill(page answer, path string, fields url.Values) url.Values {
	b.h.t.Helper()
	for _, f := range formTag.FindAllStringSubmatch(page.body, -1) {
		if html.UnescapeString(f[1]) != path {
			continue
		}
		out := url.Values{}
		for _, in := range inputTag.FindAllStringSubmatch(f[0], -1) {
			out.Add(html.UnescapeString(in[1]), html.UnescapeString(in[2]))
		}
		for name, values := range fields {
			out[name] = values
		}
		return out
	}
	b.h.t.Fatalf("the page has no form for %s: %s", path, page.body)
	return nil
}

// is fails unless the response has this status and contains all of these texts.
func (a answer) is(t testing.TB, status int, says ...string) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("got %d, want %d: %s", a.StatusCode, status, a.body)
	}
	for _, s := range says {
		if !strings.Contains(a.body, s) {
			t.Errorf("the page does not say %q: %s", s, a.body)
		}
	}
}

// asked creates a request that waits for an approval.
func (h *fixture) asked(scope string) broker.Request {
	h.t.Helper()
	s := h.Open(h.t, brokertest.Spec())
	if _, err := s.AskDeferred(h.t, scope); err == nil {
		h.t.Fatal("nobody was asked")
	}
	rs, err := h.Broker.Requests(h.t.Context(), h.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || len(rs) != 1 {
		h.t.Fatal(len(rs), err)
	}
	return rs[0]
}
