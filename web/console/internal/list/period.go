package list

import (
	"time"

	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Period is the time of a filter, with the form fields that select it: a preset,
// and a beginning and an end. Times without a zone are in the zone of the visitor.
type Period struct {
	From, To time.Time // in [From, To); zero = no limit
	Presets  []shell.Option
	Problems map[string]string // of the query
	zone     *time.Location
}

// PeriodForm is the data of the template "period", which has the fields of a period.
type PeriodForm struct {
	Period
	View   shell.View
	What   string
	Fields []shell.Option // names and labels of both ends
}

// NewPeriodForm returns the fields of a period. what labels them, such as Issued.
func NewPeriodForm(v shell.View, p Period, what string) PeriodForm {
	return PeriodForm{p, v, what, []shell.Option{{Value: "from", Label: what + " from"}, {Value: "to", Label: what + " before"}}}
}

// Value returns the text of a form field, in the zone of the visitor.
func (p Period) Value(field string) string {
	t := map[string]time.Time{"from": p.From, "to": p.To}[field]
	if t.IsZero() {
		return ""
	}
	return t.In(p.zone).Format("2006-01-02T15:04:05")
}

// Period reads the fields when, from and to. Kept gets both ends in UTC: a link
// selects the same rows for every visitor, on every day.
func (a *Query) Period(zone *time.Location, now time.Time) Period {
	day := func(back int) time.Time {
		y, m, d := now.In(zone).Date()
		return time.Date(y, m, d-back, 0, 0, 0, 0, zone)
	}
	p := Period{zone: zone, Problems: a.Problems}
	ends := map[string][2]time.Time{}
	preset := func(value, label string, from, to time.Time) {
		p.Presets = append(p.Presets, shell.Option{Value: value, Label: label})
		ends[value] = [2]time.Time{from, to}
	}
	preset("today", "today", day(0), time.Time{})
	preset("yesterday", "yesterday", day(1), day(0))
	for back := 2; back <= 7; back++ {
		preset(day(back).Format(time.DateOnly), "last "+day(back).Format("Monday, 2 January"), day(back), day(back-1))
	}
	preset("7d", "the last 7 days", day(6), time.Time{})
	preset("30d", "the last 30 days", day(29), time.Time{})
	when, from, to := a.Text("when"), a.Text("from"), a.Text("to")
	if e, known := ends[when]; known {
		p.From, p.To = e[0], e[1]
		if _, err := time.Parse(time.DateOnly, when); err != nil {
			a.when = when
		}
	} else if when != "" {
		a.Wrong("when", "Choose a period from the list.")
	} else {
		p.From, p.To = a.moment("from", from, zone), a.moment("to", to, zone)
		if !p.From.IsZero() && !p.To.IsZero() && !p.From.Before(p.To) {
			a.Wrong("to", "The end must be after the beginning.")
		}
	}
	a.Kept.Del("when")
	for name, t := range map[string]time.Time{"from": p.From, "to": p.To} {
		if a.Kept.Del(name); !t.IsZero() && a.Problems[name] == "" {
			a.Kept.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	return p
}

// moment reads a time in the forms that browsers send and that links have.
func (a *Query) moment(field, text string, zone *time.Location) time.Time {
	if text == "" {
		return time.Time{}
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, zone); err == nil && t.Year() >= 1970 && t.Year() < 9999 {
			return t
		}
	}
	a.Wrong(field, "“"+shell.OneLine(text)+"” is not a time. Write it as 2026-01-31T14:05.")
	return time.Time{}
}
