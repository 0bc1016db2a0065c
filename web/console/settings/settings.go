package settings

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// lookLife is the lifetime of the preference cookies.
const lookLife = 365 * 24 * time.Hour

type settingsPage struct {
	Session     people.Session // of this browser
	Sessions    []browserOf
	Passkeys    []people.Passkey
	Fresh       bool             // passkeys can be added and removed now
	Address     bool             // the console is at an IP address, where passkeys do not work
	Shown       string           // name of the time zone of shown times
	ZoneSays    string           // the typed time zone
	Problem     string           // the problem with it
	Preferences *preferencesPage // nil = as stored
	Absence     *absencePage     // nil = as stored, if the person decides requests
}

func (ps *Pages) settings(c echo.Context, v *session.Visit) error {
	return ps.drawSettings(c, http.StatusOK, v, settingsPage{ZoneSays: session.Cookie(c, session.CookieZone)})
}

// drawSettings shows the settings. It loads the fields that page does not set.
func (ps *Pages) drawSettings(c echo.Context, status int, v *session.Visit, page settingsPage) error {
	browsers, err := ps.browsers(c.Request().Context(), v)
	if err != nil {
		return err
	}
	keys, err := ps.Proofs.Passkeys(c.Request().Context(), v)
	if err != nil {
		return err
	}
	if page.Preferences == nil {
		kept, err := ps.wishes(c.Request().Context(), v)
		if err != nil {
			return err
		}
		page.Preferences = &kept
	}
	if page.Absence == nil {
		if page.Absence, err = ps.absence(c, v); err != nil {
			return err
		}
	}
	page.Session, page.Sessions, page.Passkeys, page.Fresh, page.Address, page.Shown = v.Session, browsers, keys, ps.Proofs.Fresh(v), ps.Keys == nil, shell.Zone(c).String()
	return ps.Shell.Draw(c, status, v, "settings", shell.Frame{Title: "Settings", Nav: "/settings"}, page)
}

// look stores the theme and time zone in cookies.
func (ps *Pages) look(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	theme, name := form.Get("theme"), strings.TrimSpace(form.Get("zone"))
	switch theme {
	case "", "light", "dark":
	default:
		return broker.E(broker.Invalid, "theme must be light, dark or empty (the system setting).", nil)
	}
	if name != "" && shell.ZoneOf(name) == nil {
		return ps.drawSettings(c, http.StatusUnprocessableEntity, v, settingsPage{ZoneSays: name, Problem: "Unknown time zone. Use an IANA name such as Europe/Berlin or UTC."})
	}
	ps.setLook(c, session.CookieTheme, theme)
	ps.setLook(c, session.CookieZone, name)
	return ps.Shell.Redirect(c, "/settings")
}

// setLook sets a cookie that scripts may read. No decision depends on it.
func (ps *Pages) setLook(c echo.Context, name, value string) {
	ck := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, SameSite: http.SameSiteLaxMode, MaxAge: int(lookLife / time.Second)}
	if value == "" {
		ck.MaxAge = -1
	}
	c.SetCookie(ck)
}
