package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/people"
)

// lookLife is how long a browser keeps what its person chose for it.
const lookLife = 365 * 24 * time.Hour

type settingsPage struct {
	Session  people.Session // of this browser
	Sessions []browserOf
	Passkeys []people.Passkey
	Fresh    bool        // a passkey may be added
	Address  bool        // the console is at an address, where there are none
	Shown    string      // name of the zone that times are in
	ZoneSays string      // what was typed
	Problem  string      // with what was typed
	Wishes   *wishesPage // nil = as kept
}

func (s *Console) settings(c echo.Context, v *visit) error {
	return s.drawSettings(c, http.StatusOK, v, settingsPage{ZoneSays: cookie(c, cookieZone)})
}

// drawSettings fills in what page does not have.
func (s *Console) drawSettings(c echo.Context, status int, v *visit, page settingsPage) error {
	browsers, err := s.browsers(c.Request().Context(), v)
	if err != nil {
		return err
	}
	keys, err := s.passkeys(c.Request().Context(), v)
	if err != nil {
		return err
	}
	if page.Wishes == nil {
		kept, err := s.wishes(c.Request().Context(), v)
		if err != nil {
			return err
		}
		page.Wishes = &kept
	}
	page.Session, page.Sessions, page.Passkeys, page.Fresh, page.Address, page.Shown = v.session, browsers, keys, s.fresh(v), s.keys == nil, zone(c).String()
	return s.draw(c, status, v, "settings", frame{Title: "Settings", Nav: "/settings"}, page)
}

// look keeps in the browser how pages look there.
func (s *Console) look(c echo.Context, v *visit) error {
	form := c.Request().PostForm
	theme, name := form.Get("theme"), strings.TrimSpace(form.Get("zone"))
	switch theme {
	case "", "light", "dark":
	default:
		return broker.E(broker.Invalid, "A theme is light, dark, or as the system says.", nil)
	}
	if name != "" && zoneOf(name) == nil {
		return s.drawSettings(c, http.StatusUnprocessableEntity, v, settingsPage{ZoneSays: name, Problem: "There is no such time zone. Write one such as Europe/Berlin or UTC."})
	}
	s.setLook(c, cookieTheme, theme)
	s.setLook(c, cookieZone, name)
	return s.redirect(c, "/settings")
}

// setLook sets a cookie that scripts may read: it decides nothing.
func (s *Console) setLook(c echo.Context, name, value string) {
	ck := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, SameSite: http.SameSiteLaxMode, MaxAge: int(lookLife / time.Second)}
	if value == "" {
		ck.MaxAge = -1
	}
	c.SetCookie(ck)
}
