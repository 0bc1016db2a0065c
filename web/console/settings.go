package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

// settingPages serves a person's settings and the statistics.
type settingPages struct {
	clock func() time.Time
	b     *core.Broker
	keys  *passkey.Keys

	pages    *pages
	requests *requestPages
	visits   *visits
}

// lookLife is the lifetime of the preference cookies.
const lookLife = 365 * 24 * time.Hour

type settingsPage struct {
	Session  people.Session // of this browser
	Sessions []browserOf
	Passkeys []people.Passkey
	Fresh    bool        // passkeys can be added and removed now
	Address  bool        // the console is at an IP address, where passkeys do not work
	Shown    string      // name of the time zone of shown times
	ZoneSays string      // the typed time zone
	Problem  string      // the problem with it
	Wishes   *wishesPage // nil = as stored
}

func (sp *settingPages) settings(c echo.Context, v *visit) error {
	return sp.drawSettings(c, http.StatusOK, v, settingsPage{ZoneSays: cookie(c, cookieZone)})
}

// drawSettings shows the settings. It loads the fields that page does not set.
func (sp *settingPages) drawSettings(c echo.Context, status int, v *visit, page settingsPage) error {
	browsers, err := sp.visits.browsers(c.Request().Context(), v)
	if err != nil {
		return err
	}
	keys, err := sp.visits.passkeys(c.Request().Context(), v)
	if err != nil {
		return err
	}
	if page.Wishes == nil {
		kept, err := sp.requests.wishes(c.Request().Context(), v)
		if err != nil {
			return err
		}
		page.Wishes = &kept
	}
	page.Session, page.Sessions, page.Passkeys, page.Fresh, page.Address, page.Shown = v.session, browsers, keys, sp.visits.fresh(v), sp.keys == nil, zone(c).String()
	return sp.pages.draw(c, status, v, "settings", frame{Title: "Settings", Nav: "/settings"}, page)
}

// look stores the theme and time zone in cookies.
func (sp *settingPages) look(c echo.Context, v *visit) error {
	form := c.Request().PostForm
	theme, name := form.Get("theme"), strings.TrimSpace(form.Get("zone"))
	switch theme {
	case "", "light", "dark":
	default:
		return broker.E(broker.Invalid, "theme must be light, dark or empty (the system setting).", nil)
	}
	if name != "" && zoneOf(name) == nil {
		return sp.drawSettings(c, http.StatusUnprocessableEntity, v, settingsPage{ZoneSays: name, Problem: "Unknown time zone. Use an IANA name such as Europe/Berlin or UTC."})
	}
	sp.setLook(c, cookieTheme, theme)
	sp.setLook(c, cookieZone, name)
	return sp.visits.redirect(c, "/settings")
}

// setLook sets a cookie that scripts may read. No decision depends on it.
func (sp *settingPages) setLook(c echo.Context, name, value string) {
	ck := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, SameSite: http.SameSiteLaxMode, MaxAge: int(lookLife / time.Second)}
	if value == "" {
		ck.MaxAge = -1
	}
	c.SetCookie(ck)
}

// settingRoutes are the routes of statistics and settings.
func (sp *settingPages) settingRoutes() []route {
	return []route{
		sp.visits.page("/insights", sp.insights),
		sp.visits.page("/settings", sp.settings),
		sp.visits.form("/settings/look", true, sp.look),
		sp.visits.form("/settings/wishes", false, sp.requests.setWishes),
	}
}
