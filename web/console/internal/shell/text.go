package shell

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/agenttext"
)

// Clock formats a time in the reader's zone, with the date when it is not today.
func Clock(v View, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	t, now := t.In(v.Zone), v.Now.In(v.Zone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05 MST")
	}
	return t.Format("2 Jan 2006 15:04 MST")
}

// Span formats a duration with one or two units: 40 s, 22 min, 1 h 30 min.
func Span(d time.Duration) string {
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

// OneLine renders a value of the facts on one line. Names in it were written by
// runners, so it escapes invisible characters.
func OneLine(text string) string { return agenttext.ShowLine(agenttext.From(text), 400) }

// Visible returns one line of text with invisible characters escaped. Each tab is replaced by tab.
func Visible(line, tab string) string {
	parts := strings.Split(line, "\t")
	for i, p := range parts {
		parts[i] = agenttext.Name(p)
	}
	return strings.Join(parts, tab)
}

// Editable returns policy text for a form. Invisible characters are escaped, so
// that the author sees them and does not save them unnoticed.
func Editable(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = Visible(l, "\t")
	}
	return strings.Join(lines, "\n")
}

// Row is one line of a table of changes.
type Row struct {
	Field   string `json:"field"`
	Now     string `json:"now"`
	Asked   string `json:"asked"`
	Changed bool   `json:"changed"`
}

// Line is one fact with its label.
type Line struct {
	Label string `json:"label"`
	Text  string `json:"text"`
	Name  bool   `json:"name,omitempty"` // Text is a name: rendered left to right and never truncated
	Warn  bool   `json:"warn,omitempty"` // needs attention
	Path  string `json:"path,omitempty"` // path of its page in the console
}

// table is a table of rows with its headings.
type table struct {
	Caption, Left, Right string
	Rows                 []Row
}

// taskLink is the data of the template "task", the link to a task.
type taskLink struct {
	View     View
	ID, Name string
}

// Problem is the error text of a form field.
type Problem struct{ ID, Text string }

// Option is one choice of a select element.
type Option struct{ Value, Label string }

// Values returns the values of the options.
func Values(options []Option) []string {
	out := make([]string, len(options))
	for i, o := range options {
		out[i] = o.Value
	}
	return out
}

var idForm = lazyregexp.New(`^[a-z]{3}_[0-9a-f]{32}$`)

// ShortID returns the beginning and the end of an id that ebb made, for lists: its first
// digits are its time, its last ones are random. Other names are returned whole.
func ShortID(name string) string {
	if !idForm.MatchString(name) {
		return name
	}
	return name[:8] + "…" + name[len(name)-5:]
}
