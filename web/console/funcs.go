package console

import (
	"fmt"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/risk"
	"html/template"
	"strings"
	"time"
)

// agentText is agent text with invisible characters escaped, and notes about
// it.
type agentText struct {
	Text  string
	Notes []agenttext.Note
	Count int // code points
}

// funcs returns the functions of templates. Those that format times take the
// view first, because it has the time zone.
func (pg *pages) funcs() template.FuncMap {
	return template.FuncMap{
		"asset": pg.assets.url,
		"words": func(items []string) string { return strings.Join(items, ", ") },
		"agent": func(u agenttext.Untrusted, max int) agentText {
			text, notes := agenttext.Show(u, max)
			return agentText{Text: text, Notes: notes, Count: u.Len()}
		},
		"utc":        func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":      clock,
		"left":       func(v view, t time.Time) string { return span(t.Sub(v.Now)) },
		"ago":        func(v view, t time.Time) string { return span(v.Now.Sub(t)) },
		"span":       span,
		"took":       took,
		"share":      share,
		"answers":    func(left string, rows []report.Answers) answerTable { return answerTable{left, rows} },
		"line":       issuedLine,
		"table":      func(caption, left, right string, rows []row) table { return table{caption, left, right, rows} },
		"problem":    func(id, text string) problem { return problem{id, text} },
		"plain":      func(name any) string { return agenttext.Name(fmt.Sprint(name)) },
		"lineOf":     func(v view, t timeline) lineView { return lineView{v, t} },
		"short":      func(v view, t time.Time) string { return t.In(v.Zone).Format("15:04:05") },
		"zoneName":   func(v view) string { return v.Now.In(v.Zone).Format("MST") },
		"entryRows":  entryRows,
		"sourceSays": sourceSays,
		"version":    shortVersion,
		"cedar":      editable,
		"levels":     func() []risk.Level { return []risk.Level{risk.High, risk.Medium, risk.Low} },
	}
}

// clock formats a time in the reader's zone, with the date when it is not
// today.
func clock(v view, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	t, now := t.In(v.Zone), v.Now.In(v.Zone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05 MST")
	}
	return t.Format("2 Jan 2006 15:04 MST")
}

// span formats a duration with one or two units: 40 s, 22 min, 1 h 30 min.
func span(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		if m := int(d.Minutes()) % 60; m > 0 {
			return fmt.Sprintf("%d h %d min", int(d.Hours()), m)
		}
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
