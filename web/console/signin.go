package console

import (
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/people"
	"ebb/web/signin"
)

func (s *Console) home(c echo.Context) error { return s.redirect(c, "/queue") }

func (s *Console) redirect(c echo.Context, path string) error {
	return c.Redirect(http.StatusSeeOther, s.mux.Base()+path)
}

// toSignIn remembers in a cookie where a person wanted to go: in the address it would
// be somebody else's to write.
func (s *Console) toSignIn(c echo.Context) error {
	to := strings.TrimPrefix(c.Request().URL.RequestURI(), s.mux.Base())
	if len(to) < 1024 && s.isPage(to) {
		setCookie(c, cookieTo, strings.ReplaceAll(to, ";", "%3B"), http.SameSiteLaxMode, 10*time.Minute)
	}
	return s.redirect(c, "/signin")
}

// isPage reports whether to is a path of this console and nothing else.
func (s *Console) isPage(to string) bool {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return false
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(to, "/"), "/")
	first, _, _ = strings.Cut(first, "?")
	return slices.ContainsFunc(s.routes(), func(r route) bool {
		return r.Method == http.MethodGet && first != "" && first != "signin" && first != "events" && first != "assets" && (r.Path == "/"+first || strings.HasPrefix(r.Path, "/"+first+"/"))
	})
}

type signInPage struct {
	Methods []signin.Method
}

func (s *Console) signIn(c echo.Context) error {
	if _, err := s.visit(c, false); err == nil {
		return s.redirect(c, "/queue")
	}
	var offered []signin.Method
	for _, m := range s.cfg.Methods {
		if m.Label() != "" {
			offered = append(offered, m)
		}
	}
	return s.draw(c, http.StatusOK, nil, "signin", frame{Title: "Sign in"}, signInPage{offered})
}

func (s *Console) begin(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error { return m.Begin(c, host{s, m}) }
}

func (s *Console) finish(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.ours(c.Request()); err != nil {
			return err
		}
		return m.Finish(c, host{s, m})
	}
}

func (s *Console) callback(m signin.Method) echo.HandlerFunc {
	return func(c echo.Context) error { return m.Finish(c, host{s, m}) }
}

// host implements signin.Host for one method.
type host struct {
	s *Console
	m signin.Method
}

type askPage struct {
	signin.Form
	Action string
}

// Ask implements signin.Host.
func (h host) Ask(c echo.Context, f signin.Form) error {
	return h.s.draw(c, http.StatusOK, nil, "ask", frame{Title: f.Title}, askPage{f, h.s.mux.Base() + "/signin/" + h.m.Name()})
}

// Welcome implements signin.Host.
func (h host) Welcome(c echo.Context, p signin.Person) error {
	s, ctx, now := h.s, c.Request().Context(), h.s.cfg.Now()
	if p.ID == "" || !p.Has(everyone...) {
		return broker.E(broker.Forbidden, "You were recognised, but you have no role at this ebb. Ask its operator for one.", nil)
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
	if err := s.cfg.Sessions.AddSession(ctx, session); err != nil {
		return broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	// Where they can be told that something waits. Not knowing that keeps nobody out.
	_ = s.cfg.Reach.Know(ctx, people.Reach{Person: p.ID, Mail: p.Mail, Roles: session.Roles, Groups: p.Groups, Also: p.Also, SeenAt: now})
	// Who proves it again has one session in this browser, and not two.
	if old := cookie(c, cookieRead); old != "" {
		s.lastSeen.Remove(hashOf(old))
		_, _ = s.cfg.Sessions.EndSessions(ctx, p.ID, hashOf(old))
	}
	to := cookie(c, cookieTo)
	if !s.isPage(to) {
		to = "/queue"
	}
	setCookie(c, cookieRead, read, http.SameSiteLaxMode, until.Sub(now))
	setCookie(c, cookieAct, act, http.SameSiteStrictMode, until.Sub(now))
	setCookie(c, cookieTo, "", http.SameSiteLaxMode, 0)
	return s.redirect(c, to)
}

// agent is what a browser calls itself, as far as it can be kept and drawn.
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

func (s *Console) signOut(c echo.Context, v *visit) error {
	ctx := c.Request().Context()
	if err := s.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // nobody approves alone who has left
		return err
	}
	s.lastSeen.Remove(v.session.ID)
	n, err := s.cfg.Sessions.EndSessions(ctx, v.ID, v.session.ID)
	if err != nil {
		return broker.E(broker.Unavailable, "The database does not answer: the session goes on. Try again.", err)
	}
	if err := s.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // one that began in between: in this session none does any more
		return err
	}
	s.b.SignedOut(ctx, v.Principal, n)
	setCookie(c, cookieRead, "", http.SameSiteLaxMode, 0)
	setCookie(c, cookieAct, "", http.SameSiteStrictMode, 0)
	return s.redirect(c, "/signin")
}
