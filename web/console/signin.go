package console

import (
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/signin"
)

func (vs *visits) home(c echo.Context) error { return vs.redirect(c, "/queue") }

func (vs *visits) redirect(c echo.Context, path string) error {
	return c.Redirect(http.StatusSeeOther, vs.mux.Base()+path)
}

// toSignIn stores the requested path in a cookie. In the address, another site
// could choose it.
func (vs *visits) toSignIn(c echo.Context) error {
	to := strings.TrimPrefix(c.Request().URL.RequestURI(), vs.mux.Base())
	if len(to) < 1024 && vs.isPage(to) {
		setCookie(c, cookieTo, strings.ReplaceAll(to, ";", "%3B"), http.SameSiteLaxMode, 10*time.Minute)
	}
	return vs.redirect(c, "/signin")
}

// isPage reports whether to is a path of this console.
func (vs *visits) isPage(to string) bool {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(to, "/"), "/")
	first, _, _ = strings.Cut(first, "?")
	return slices.ContainsFunc(vs.known(), func(r route) bool {
		return r.Method == http.MethodGet && first != "" && first != "signin" && first != "events" && first != "assets" && (r.Path == "/"+first || strings.HasPrefix(r.Path, "/"+first+"/"))
	})
}

type signInPage struct {
	Methods []signin.Method
}

func (vs *visits) signIn(c echo.Context) error {
	if _, err := vs.visit(c, false); err == nil {
		return vs.redirect(c, "/queue")
	}
	var offered []signin.Method
	for _, m := range vs.methods {
		if m.Label() != "" {
			offered = append(offered, m)
		}
	}
	return vs.pages.draw(c, http.StatusOK, nil, "signin", frame{Title: "Sign in"}, signInPage{offered})
}

func (vs *visits) begin(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error { return m.Begin(c, host{vs, m}) }
}

func (vs *visits) finish(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := vs.pages.ours(c.Request()); err != nil {
			return err
		}
		return m.Finish(c, host{vs, m})
	}
}

func (vs *visits) callback(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error { return m.Finish(c, host{vs, m}) }
}

// host implements signin.Host for one method.
type host struct {
	s *visits
	m signin.Method
}

type askPage struct {
	signin.Form
	Action string
}

// Ask implements signin.Host.
func (h host) Ask(c echo.Context, f signin.Form) error {
	return h.s.pages.draw(c, http.StatusOK, nil, "ask", frame{Title: f.Title}, askPage{f, h.s.mux.Base() + "/signin/" + h.m.Name()})
}

// Welcome implements signin.Host.
func (h host) Welcome(c echo.Context, p signin.Person) error {
	s, ctx, now := h.s, c.Request().Context(), h.s.clock()
	if p.ID == "" || !p.Has(everyone...) {
		return broker.E(broker.Forbidden, "You signed in, but you have no role at this ebb. Ask its operator for a role.", nil)
	}
	groupsAt := p.GroupsAt
	if groupsAt.IsZero() {
		groupsAt = now
	}
	read, readHash := newSecret()
	act, actHash := newSecret()
	until := now.Add(sessionLife)
	if !p.Until.IsZero() && p.Until.Before(until) {
		until = p.Until
	}
	name := p.Name
	if name == "" {
		name = p.ID
	}
	session := people.Session{
		ID: readHash, Act: actHash, Person: p.ID, Name: name, Groups: p.Groups, Also: p.Also, Method: h.m.Name(), Purpose: p.Purpose, ACR: p.ACR, Agent: agent(c.Request().UserAgent()),
		AuthAt: p.AuthAt, GroupsAt: groupsAt, CreatedAt: now, SeenAt: now, ExpiresAt: until,
	}
	for _, r := range p.Roles {
		session.Roles = append(session.Roles, string(r))
	}
	if _, err := s.principal(session); err != nil {
		return err
	}
	if err := s.b.SignedIn(ctx, p.Principal, h.m.Name(), until); err != nil {
		return err
	}
	if err := s.sessions.AddSession(ctx, session); err != nil {
		return broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	// Store where the person can be notified. An error must not prevent the
	// sign-in.
	_ = s.reach.Know(ctx, people.Reach{Person: p.ID, Mail: p.Mail, Roles: session.Roles, Groups: p.Groups, Also: p.Also, SeenAt: now})
	// A new sign-in replaces the earlier session of this browser.
	if old := cookie(c, cookieRead); old != "" {
		s.lastSeen.Remove(hashOf(old))
		_, _ = s.sessions.EndSessions(ctx, p.ID, hashOf(old))
	}
	to := p.Page
	if !s.isPage(to) {
		to = cookie(c, cookieTo)
	}
	if !s.isPage(to) {
		to = "/queue"
	}
	setCookie(c, cookieRead, read, http.SameSiteLaxMode, until.Sub(now))
	setCookie(c, cookieAct, act, http.SameSiteStrictMode, until.Sub(now))
	setCookie(c, cookieTo, "", http.SameSiteLaxMode, 0)
	return s.redirect(c, to)
}

// agent returns the User-Agent header with at most 200 characters, all
// printable ASCII.
func agent(s string) string {
	out := make([]rune, 0, 200)
	for _, r := range s {
		if len(out) == cap(out) {
			break
		}
		if r < ' ' || r > '~' || r == utf8.RuneError {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}

func (vs *visits) signOut(c echo.Context, v *visit) error {
	ctx := c.Request().Context()
	if err := vs.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // a person who signs out must not keep an open period
		return err
	}
	vs.lastSeen.Remove(v.session.ID)
	n, err := vs.sessions.EndSessions(ctx, v.ID, v.session.ID)
	if err != nil {
		return broker.E(broker.Unavailable, "The database does not answer: the session was not ended. Try again.", err)
	}
	if err := vs.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // a period started between the two calls; an ended session cannot start another
		return err
	}
	vs.b.SignedOut(ctx, v.Principal, n)
	setCookie(c, cookieRead, "", http.SameSiteLaxMode, 0)
	setCookie(c, cookieAct, "", http.SameSiteStrictMode, 0)
	return vs.redirect(c, "/signin")
}

// signInRoutes are the routes of each sign-in method.
func (vs *visits) signInRoutes() []route {
	var routes []route
	for _, m := range vs.methods {
		base := "/signin/" + m.Name()
		routes = append(routes,
			route{web.Route{Method: http.MethodGet, Path: base}, vs.pages.guarded(vs.begin(m))},
			route{web.Route{Method: http.MethodPost, Path: base}, vs.pages.guarded(vs.finish(m))},
			route{web.Route{Method: http.MethodGet, Path: base + "/callback"}, vs.pages.guarded(vs.callback(m))},
		)
	}
	return routes
}
