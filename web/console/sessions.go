package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
)

// browserOf is one session, for the settings of its person.
type browserOf struct {
	people.Session
	Here bool   // the session of this browser
	Name string // short name of the browser
}

// browsers returns the open sessions of a person.
func (vs *visits) browsers(ctx context.Context, v *visit) ([]browserOf, error) {
	list, err := vs.sessions.Sessions(ctx, v.ID)
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

// endSessions ends the session that the form names. Without one it ends all but
// the current session.
func (vs *visits) endSessions(c echo.Context, v *visit) error {
	ctx := c.Request().Context()
	var ids []string
	if id := c.Request().PostForm.Get("session"); id != "" {
		ids = []string{id}
	} else {
		others, err := vs.browsers(ctx, v)
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
		return vs.redirect(c, "/settings")
	}
	if err := vs.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // the sessions do not tell in which of them the period was started
		return err
	}
	for _, id := range ids {
		vs.lastSeen.Remove(id)
	}
	n, err := vs.sessions.EndSessions(ctx, v.ID, ids...)
	if err != nil {
		return broker.E(broker.Unavailable, "The database does not answer: no session was ended. Try again.", err)
	}
	if err := vs.b.LeaveBreakGlass(ctx, v.Principal); err != nil { // a period started between the two calls; ended sessions cannot start another
		return err
	}
	if n > 0 {
		vs.b.SignedOut(ctx, v.Principal, n)
	}
	if len(ids) == 1 && ids[0] == v.session.ID {
		setCookie(c, cookieRead, "", http.SameSiteLaxMode, 0)
		setCookie(c, cookieAct, "", http.SameSiteStrictMode, 0)
		return vs.redirect(c, "/signin")
	}
	return vs.redirect(c, "/settings")
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
