package settings

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// browserOf is one session, for the settings of its person.
type browserOf struct {
	people.Session
	Here bool   // the session of this browser
	Name string // short name of the browser
}

// browsers returns the open sessions of a person.
func (ps *Pages) browsers(ctx context.Context, v *session.Visit) ([]browserOf, error) {
	list, err := ps.Sessions.Open(ctx, v)
	if err != nil {
		return nil, err
	}
	var out []browserOf
	for _, p := range list {
		out = append(out, browserOf{Session: p, Here: p.ID == v.Session.ID, Name: browserName(p.Agent)})
	}
	return out, nil
}

// endSessions ends the session that the form names. Without one it ends all but
// the current session.
func (ps *Pages) endSessions(c echo.Context, v *session.Visit) error {
	ctx := c.Request().Context()
	var ids []string
	if id := c.Request().PostForm.Get("session"); id != "" {
		ids = []string{id}
	} else {
		others, err := ps.browsers(ctx, v)
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
		return ps.Shell.Redirect(c, "/settings")
	}
	if err := ps.Broker.LeaveBreakGlass(ctx, v.Principal); err != nil { // the sessions do not tell in which of them the period was started
		return err
	}
	n, err := ps.Sessions.End(ctx, v.ID, ids...)
	if err != nil {
		return broker.E(broker.Unavailable, "The database does not answer: no session was ended. Try again.", err)
	}
	if err := ps.Broker.LeaveBreakGlass(ctx, v.Principal); err != nil { // a period started between the two calls; ended sessions cannot start another
		return err
	}
	if n > 0 {
		ps.Broker.SignedOut(ctx, v.Principal, n)
	}
	if len(ids) == 1 && ids[0] == v.Session.ID {
		session.SetCookie(c, session.CookieRead, "", http.SameSiteLaxMode, 0)
		session.SetCookie(c, session.CookieAct, "", http.SameSiteStrictMode, 0)
		return ps.Shell.Redirect(c, "/signin")
	}
	return ps.Shell.Redirect(c, "/settings")
}

// browserName returns the common name of a browser from its User-Agent header.
// Browsers also name others for compatibility (Edge contains "Chrome" and
// "Safari"), so the most specific names are checked first.
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
		return "Unknown browser"
	}
	return agent[:min(len(agent), 60)]
}
