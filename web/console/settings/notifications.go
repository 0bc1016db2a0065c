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

// wishesPage is the form of a person's notification preferences.
type wishesPage struct {
	Mail     string // "" = no address verified by the identity provider
	Sends    bool   // a notification channel sends to people
	Levels   []levelWish
	From, To string // quiet hours, as HH:MM; "" = none
	Zone     string
	Breaks   bool
	Problem  shell.Problem
}

// levelWish is the preference for one level of risk.
type levelWish struct {
	Level string
	Wish  people.Wish
}

// wishes loads the preferences of the person of v.
func (ps *Pages) wishes(ctx context.Context, v *session.Visit) (wishesPage, error) {
	r, err := ps.reach.Reach(ctx, v.ID)
	if errors.Is(err, people.ErrNone) { // signed in by an earlier version of ebb
		r, err = people.Reach{Wishes: people.DefaultWishes()}, nil
	}
	if err != nil {
		return wishesPage{}, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	w := r.Wishes
	page := wishesPage{Mail: r.Mail, Sends: ps.tellsPeople, Levels: []levelWish{{"high", w.High}, {"medium", w.Medium}, {"low", w.Low}}, Zone: w.Zone, Breaks: w.HighBreaks}
	if w.QuietFrom != w.QuietTo {
		page.From, page.To = hourOf(w.QuietFrom), hourOf(w.QuietTo)
	}
	return page, nil
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

// readWishes parses the form. A problem names its field.
func readWishes(form url.Values) (w people.Wishes, p shell.Problem) {
	w = people.Wishes{
		High: people.Wish(form.Get("high")), Medium: people.Wish(form.Get("medium")), Low: people.Wish(form.Get("low")),
		Zone: strings.TrimSpace(form.Get("quiet_zone")), HighBreaks: form.Get("breaks") == "yes",
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
	switch {
	case !okFrom:
		return w, shell.Problem{ID: "quiet_from", Text: "Enter both ends of the quiet hours, such as 22:00 and 07:00, or leave both empty."}
	case !okTo:
		return w, shell.Problem{ID: "quiet_to", Text: "Enter both ends of the quiet hours, such as 22:00 and 07:00, or leave both empty."}
	}
	return w, shell.Problem{}
}

// setWishes stores a person's notification preferences.
func (ps *Pages) setWishes(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	w, p := readWishes(form)
	if p.ID != "" {
		page := wishesPage{Levels: []levelWish{{"high", w.High}, {"medium", w.Medium}, {"low", w.Low}}, From: form.Get("quiet_from"), To: form.Get("quiet_to"), Zone: w.Zone, Breaks: w.HighBreaks, Problem: p}
		kept, err := ps.wishes(c.Request().Context(), v)
		if err != nil {
			return err
		}
		page.Mail, page.Sends = kept.Mail, kept.Sends
		return ps.drawSettings(c, http.StatusUnprocessableEntity, v, settingsPage{ZoneSays: session.Cookie(c, session.CookieZone), Wishes: &page})
	}
	if err := w.Check(); err != nil {
		return broker.E(broker.Invalid, "Choose 'At once', 'In a digest' or 'Not at all' for each level.", err)
	}
	err := ps.reach.Wish(c.Request().Context(), v.ID, w)
	switch {
	case errors.Is(err, people.ErrNone):
		return broker.E(broker.Conflict, "Your session is older than the notification feature of this ebb. Sign out and sign in again.", err)
	case err != nil:
		return broker.E(broker.Unavailable, "The database does not answer: nothing was changed. Try again in a moment.", err)
	}
	return ps.shell.Redirect(c, "/settings")
}
