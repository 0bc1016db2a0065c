package settings

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// preferencesPage is the form of a person's notification preferences.
type preferencesPage struct {
	Mail     string // "" = no address verified by the identity provider
	Sends    bool   // a notification channel sends to people's mail addresses
	Browsers int    // number of browsers that get notifications; -1 = no channel sends to browsers
	Levels   []levelPreference
	From, To string // quiet hours, as HH:MM; "" = none
	Zone     string
	Breaks   bool
	Keys     bool // one-key shortcuts are on
	Problem  shell.Problem
}

// levelPreference is the preference for one level of risk.
type levelPreference struct {
	Level      string
	Preference people.Preference
}

// wishes loads the preferences of the person of v.
func (ps *Pages) wishes(ctx context.Context, v *session.Visit) (preferencesPage, error) {
	r, err := ps.stored(ctx, v)
	if err != nil {
		return preferencesPage{}, err
	}
	w := r.Preferences
	page := preferencesPage{Mail: r.Mail, Sends: ps.TellsPeople, Levels: []levelPreference{{"high", w.High}, {"medium", w.Medium}, {"low", w.Low}}, Zone: w.Zone, Breaks: w.HighBreaks, Keys: !w.NoShortcuts}
	if page.Browsers = r.Browsers; ps.Push == nil {
		page.Browsers = -1
	}
	if w.QuietFrom != w.QuietTo {
		page.From, page.To = hourOf(w.QuietFrom), hourOf(w.QuietTo)
	}
	return page, nil
}

// stored returns the address and the preferences of the person of v.
func (ps *Pages) stored(ctx context.Context, v *session.Visit) (people.Reach, error) {
	r, err := ps.Reach.Reach(ctx, v.ID)
	if errors.Is(err, people.ErrNone) { // signed in by an earlier version of ebb
		return people.Reach{Preferences: people.DefaultPreferences()}, nil
	}
	if err != nil {
		return r, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	return r, nil
}

func hourOf(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// minuteOfDay parses HH:MM.
func minuteOfDay(text string) (minutes int, ok bool) {
	var h, m int
	if n, err := fmt.Sscanf(text, "%02d:%02d", &h, &m); n != 2 || err != nil || hourOf(60*h+m) != text || h > 23 || m > 59 {
		return 0, false
	}
	return 60*h + m, true
}

// readPreferences parses the form. A problem names its field.
func readPreferences(form url.Values) (w people.Preferences, p shell.Problem) {
	w = people.Preferences{
		High: people.Preference(form.Get("high")), Medium: people.Preference(form.Get("medium")), Low: people.Preference(form.Get("low")),
		Zone: strings.TrimSpace(form.Get("quiet_zone")), HighBreaks: form.Get("breaks") == "yes",
		NoShortcuts: form.Get("shortcuts") != "yes",
	}
	if w.Zone != "" && shell.ZoneOf(w.Zone) == nil {
		return w, shell.Problem{ID: "quiet_zone", Text: "Unknown time zone. Use an IANA name such as Europe/Berlin or UTC."}
	}
	from, to := form.Get("quiet_from"), form.Get("quiet_to")
	if from == "" && to == "" {
		return w, shell.Problem{}
	}
	var okFrom, okTo bool
	w.QuietFrom, okFrom = minuteOfDay(from)
	w.QuietTo, okTo = minuteOfDay(to)
	if okFrom && okTo {
		return w, shell.Problem{}
	}
	return w, shell.Problem{ID: map[bool]string{true: "quiet_to", false: "quiet_from"}[okFrom], Text: "Enter both ends of the quiet hours, such as 22:00 and 07:00, or leave both empty."}
}

// setPreferences stores a person's notification preferences.
func (ps *Pages) setPreferences(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	w, p := readPreferences(form)
	if p.ID != "" {
		page := preferencesPage{Levels: []levelPreference{{"high", w.High}, {"medium", w.Medium}, {"low", w.Low}}, From: form.Get("quiet_from"), To: form.Get("quiet_to"), Zone: w.Zone, Breaks: w.HighBreaks, Keys: !w.NoShortcuts, Problem: p}
		kept, err := ps.wishes(c.Request().Context(), v)
		if err != nil {
			return err
		}
		page.Mail, page.Sends, page.Browsers = kept.Mail, kept.Sends, kept.Browsers
		return ps.drawSettings(c, http.StatusUnprocessableEntity, v, settingsPage{ZoneSays: session.Cookie(c, session.CookieZone), Preferences: &page})
	}
	if err := w.Check(); err != nil {
		return broker.E(broker.Invalid, "Choose 'At once', 'In a digest' or 'Not at all' for each level.", err)
	}
	err := v.ChangePreferences(c.Request().Context(), ps.Reach, func(old *people.Preferences) error {
		w.Views, w.Away = old.Views, old.Away
		*old = w
		return nil
	})
	if err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/settings")
}
