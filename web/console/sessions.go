package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/people"
)

// browserOf is one session, as its person sees it.
type browserOf struct {
	people.Session
	Here bool   // it is this browser
	Name string // what the browser calls itself, in short
}

// browsers are the sessions of a person that have not ended.
func (s *Console) browsers(ctx context.Context, v *visit) ([]browserOf, error) {
	list, err := s.cfg.Sessions.Sessions(ctx, v.ID)
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	var out []browserOf
	for _, p := range list {
		if ended(p, v.now) {
			continue
		}
		out = append(out, browserOf{Session: p, Here: p.ID == v.session.ID, Name: browserName(p.Agent)})
	}
	return out, nil
}

// endSessions ends the session that the form names, or without one all but this.
func (s *Console) endSessions(c echo.Context, v *visit) error {
	ctx := c.Request().Context()
	var ids []string
	if id := c.Request().PostForm.Get("session"); id != "" {
		ids = []string{id}
	} else {
		others, err := s.browsers(ctx, v)
		if err != nil {
			return err
		}
		for _, b := range others {
			if !b.Here {
				ids = append(ids, b.ID)
			}
		}
	}
	if len(ids) == 0 {
		return s.redirect(c, "/settings")
	}
	if err := s.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // whichever of them it was begun in
		return err
	}
	for _, id := range ids {
		s.lastSeen.Remove(id)
	}
	n, err := s.cfg.Sessions.EndSessions(ctx, v.ID, ids...)
	if err != nil {
		return broker.E(broker.Unavailable, "The database does not answer: the sessions go on. Try again.", err)
	}
	if err := s.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // one that began in between: in those none does any more
		return err
	}
	if n > 0 {
		s.b.SignedOut(ctx, v.Principal, n)
	}
	if len(ids) == 1 && ids[0] == v.session.ID {
		setCookie(c, cookieRead, "", http.SameSiteLaxMode, 0)
		setCookie(c, cookieAct, "", http.SameSiteStrictMode, 0)
		return s.redirect(c, "/signin")
	}
	return s.redirect(c, "/settings")
}

// browserName is what people call a browser that calls itself this. Browsers name those
// that they want to be taken for, too: the rarer name stands for itself.
func browserName(agent string) string {
	first := func(pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.Contains(agent, pairs[i]) {
				return pairs[i+1]
			}
		}
		return ""
	}
	name := first("Edg", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "FxiOS/", "Firefox", "Chrome/", "Chrome", "CriOS/", "Chrome", "Safari/", "Safari")
	on := first("Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "CrOS", "ChromeOS", "Windows", "Windows", "Mac OS X", "macOS", "Linux", "Linux")
	switch {
	case name != "" && on != "":
		return name + " on " + on
	case name != "":
		return name
	case agent == "":
		return "A browser without a name"
	}
	return agent[:min(len(agent), 60)]
}
