package settings

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// absencePage is the form in which an approver names a delegate for an absence.
type absencePage struct {
	Now            people.Absence // zero = the person is not away
	Delegates      []string       // people whom the person may choose
	Last           string         // last day, as typed
	Delegate       string
	Earliest, Most string // limits of Last
	Problem        shell.Problem
}

// absence loads the form, or nil for a person who decides no requests.
func (ps *Pages) absence(c echo.Context, v *session.Visit) (*absencePage, error) {
	if !v.Has(broker.RoleApprover) || len(v.Groups) == 0 {
		return nil, nil
	}
	ctx := c.Request().Context()
	mine, err := ps.stored(ctx, v)
	if err != nil {
		return nil, err
	}
	today := v.Now.In(shell.Zone(c))
	page := &absencePage{Earliest: today.Format(time.DateOnly), Most: today.AddDate(0, 0, people.MaxAbsence).Format(time.DateOnly)}
	if mine.Preferences.Away.At(v.Now) {
		page.Now = mine.Preferences.Away
		return page, nil
	}
	known, err := ps.Reach.Reachable(ctx, v.Now.Add(-people.KnownFor))
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	for _, p := range known {
		if !v.Named(append(p.Also, p.Person)...) && slices.Contains(p.Roles, string(broker.RoleApprover)) && broker.Meet(p.Groups, v.Groups) {
			page.Delegates = append(page.Delegates, p.Person)
		}
	}
	slices.Sort(page.Delegates)
	return page, nil
}

// setAbsence begins or ends the absence of a person.
func (ps *Pages) setAbsence(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	page, err := ps.absence(c, v)
	if err != nil {
		return err
	}
	if page == nil {
		return broker.E(broker.Forbidden, "Only a person who decides requests of a group can name a delegate.", nil)
	}
	if form.Has("end") {
		if page.Now.Delegate == "" { // it has ended already
			return ps.Shell.Redirect(c, "/settings")
		}
		return ps.storeAbsence(c, v, page.Now, people.Absence{})
	}
	page.Last, page.Delegate = form.Get("last"), form.Get("delegate")
	day, err := time.ParseInLocation(time.DateOnly, page.Last, shell.Zone(c))
	switch {
	case page.Now.Delegate != "":
		return broker.E(broker.Conflict, "You are already away. End that absence first.", nil)
	case err != nil || page.Last < page.Earliest || page.Last > page.Most:
		page.Problem = shell.Problem{ID: "last", Text: "Enter a day from " + page.Earliest + " to " + page.Most + "."}
	case !slices.Contains(page.Delegates, page.Delegate): // the same text for names that exist and that do not
		page.Problem = shell.Problem{ID: "delegate", Text: "Choose a person from the list."}
	}
	if page.Problem.ID != "" {
		return ps.drawSettings(c, http.StatusUnprocessableEntity, v, settingsPage{ZoneSays: session.Cookie(c, session.CookieZone), Absence: page})
	}
	away := people.Absence{Until: day.AddDate(0, 0, 1).UTC(), Delegate: page.Delegate}
	return ps.storeAbsence(c, v, people.Absence{}, away)
}

// storeAbsence replaces the absence from by to; the zero Absence means that there is none. It
// writes the audit entry before the change (I11). If the change fails, for example because the
// absence was changed in another window, storeAbsence writes the opposite entry.
func (ps *Pages) storeAbsence(c echo.Context, v *session.Visit, from, to people.Absence) error {
	ctx := c.Request().Context()
	record := func(ctx context.Context, to people.Absence) error {
		if to.Delegate == "" {
			return ps.Broker.SettingChanged(ctx, v.Principal, audit.AbsenceEnded, map[string]any{"delegate": from.Delegate})
		}
		return ps.Broker.SettingChanged(ctx, v.Principal, audit.AbsenceBegun, map[string]any{"delegate": to.Delegate, "until": to.Until})
	}
	if err := record(ctx, to); err != nil {
		return err
	}
	err := v.ChangePreferences(ctx, ps.Reach, func(w *people.Preferences) error {
		if now := w.Away; now.At(v.Now) != (from.Delegate != "") || now.At(v.Now) && now.Delegate != from.Delegate {
			return broker.E(broker.Conflict, "Your absence was changed in another window. Reload the page.", nil)
		}
		w.Away = to
		return nil
	})
	if err != nil {
		from, to = to, from
		return errors.Join(err, record(context.WithoutCancel(ctx), to))
	}
	return ps.Shell.Redirect(c, "/settings")
}
