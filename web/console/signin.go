package console

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/signin"
)

// signInBroker is the part of the core that sign-in and sign-out call.
type signInBroker interface {
	SignedIn(ctx context.Context, who broker.Principal, method string, until time.Time) error
	SignedOut(ctx context.Context, who broker.Principal, sessions int)
	LeaveBreakGlass(ctx context.Context, who broker.Principal) error
}

// entrance signs people in and out.
type entrance struct {
	b        signInBroker
	shell    *shell.Shell
	sessions *session.Sessions
	methods  []signin.Method
	reach    people.ReachStore
	clock    func() time.Time
}

func (e *entrance) home(c echo.Context) error { return e.shell.Redirect(c, "/queue") }

type signInPage struct {
	Methods []signin.Method
}

func (e *entrance) signIn(c echo.Context) error {
	if _, err := e.shell.Visit(c); err == nil {
		return e.shell.Redirect(c, "/queue")
	}
	var offered []signin.Method
	for _, m := range e.methods {
		if m.Label() != "" {
			offered = append(offered, m)
		}
	}
	return e.shell.Draw(c, http.StatusOK, nil, "signin", shell.Frame{Title: "Sign in"}, signInPage{offered})
}

func (e *entrance) begin(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error { return m.Begin(c, host{e, m}) }
}

func (e *entrance) finish(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := e.shell.Ours(c.Request()); err != nil {
			return err
		}
		return m.Finish(c, host{e, m})
	}
}

func (e *entrance) callback(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error { return m.Finish(c, host{e, m}) }
}

// host implements signin.Host for one method.
type host struct {
	e *entrance
	m signin.Method
}

type askPage struct {
	signin.Form
	Action string
}

// Ask implements signin.Host.
func (h host) Ask(c echo.Context, f signin.Form) error {
	return h.e.shell.Draw(c, http.StatusOK, nil, "ask", shell.Frame{Title: f.Title}, askPage{f, h.e.shell.Base() + "/signin/" + h.m.Name()})
}

// Welcome implements signin.Host.
func (h host) Welcome(c echo.Context, p signin.Person) error {
	e, ctx, now := h.e, c.Request().Context(), h.e.clock()
	if p.ID == "" || !p.Has(session.Everyone...) {
		return broker.E(broker.Forbidden, "You signed in, but you have no role at this ebb. Ask its operator for a role.", nil)
	}
	groupsAt := p.GroupsAt
	if groupsAt.IsZero() {
		groupsAt = now
	}
	read, readHash := session.NewSecret()
	act, actHash := session.NewSecret()
	until := now.Add(session.Life)
	if !p.Until.IsZero() && p.Until.Before(until) {
		until = p.Until
	}
	name := p.Name
	if name == "" {
		name = p.ID
	}
	started := people.Session{
		ID: readHash, Act: actHash, Person: p.ID, Name: name, Groups: p.Groups, Also: p.Also, Method: h.m.Name(), Purpose: p.Purpose, ACR: p.ACR, Agent: agent(c.Request().UserAgent()),
		AuthAt: p.AuthAt, GroupsAt: groupsAt, CreatedAt: now, SeenAt: now, ExpiresAt: until,
	}
	for _, r := range p.Roles {
		started.Roles = append(started.Roles, string(r))
	}
	if _, err := e.sessions.Rights(started); err != nil {
		return err
	}
	if err := e.b.SignedIn(ctx, p.Principal, h.m.Name(), until); err != nil {
		return err
	}
	if err := e.sessions.Start(ctx, started); err != nil {
		return broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	// Store the person's mail address, roles and groups for notifications. An error must not prevent
	// the sign-in.
	_ = e.reach.Know(ctx, people.Reach{Person: p.ID, Mail: p.Mail, Roles: started.Roles, Groups: p.Groups, Also: p.Also, SeenAt: now})
	// A new sign-in replaces the earlier session of this browser.
	if old := session.Cookie(c, session.CookieRead); old != "" {
		_, _ = e.sessions.End(ctx, p.ID, session.HashOf(old))
	}
	to := p.Page
	if !e.shell.IsPage(to) {
		to = session.Cookie(c, session.CookieTo)
	}
	if !e.shell.IsPage(to) {
		to = "/queue"
	}
	session.SetCookie(c, session.CookieRead, read, http.SameSiteLaxMode, until.Sub(now))
	session.SetCookie(c, session.CookieAct, act, http.SameSiteStrictMode, until.Sub(now))
	session.SetCookie(c, session.CookieTo, "", http.SameSiteLaxMode, 0)
	return e.shell.Redirect(c, to)
}

// agent returns the User-Agent header with at most 200 characters, all printable ASCII.
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

func (e *entrance) signOut(c echo.Context, v *session.Visit) error {
	ctx := c.Request().Context()
	if err := e.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // a person who signs out must not keep an open period
		return err
	}
	n, err := e.sessions.End(ctx, v.ID, v.Session.ID)
	if err != nil {
		return broker.E(broker.Unavailable, "The database does not answer: the session was not ended. Try again.", err)
	}
	if err := e.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // a period started between the two calls; an ended session cannot start another
		return err
	}
	e.b.SignedOut(ctx, v.Principal, n)
	session.SetCookie(c, session.CookieRead, "", http.SameSiteLaxMode, 0)
	session.SetCookie(c, session.CookieAct, "", http.SameSiteStrictMode, 0)
	return e.shell.Redirect(c, "/signin")
}

// routes are the routes of sign-in, by each method, and of sign-out.
func (e *entrance) routes() []shell.Route {
	routes := []shell.Route{
		{Route: web.Route{Method: http.MethodGet, Path: "/"}, Handler: e.shell.Guarded(e.home)},
		{Route: web.Route{Method: http.MethodGet, Path: "/signin"}, Handler: e.shell.Guarded(e.signIn)},
		e.shell.Form("/signout", true, e.signOut),
	}
	for _, m := range e.methods {
		base := "/signin/" + m.Name()
		routes = append(routes, []shell.Route{
			{Route: web.Route{Method: http.MethodGet, Path: base}, Handler: e.shell.Guarded(e.begin(m))},
			{Route: web.Route{Method: http.MethodPost, Path: base}, Handler: e.shell.Guarded(e.finish(m))},
			{Route: web.Route{Method: http.MethodGet, Path: base + "/callback"}, Handler: e.shell.Guarded(e.callback(m))},
		}...)
	}
	return routes
}
