package insights

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web/console/chart"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Insights(ctx context.Context, who broker.Principal, from time.Time, to time.Time) (report.Insights, error)
	Usage(ctx context.Context, who broker.Principal, from time.Time, by broker.UsageBy) (broker.Usage, error)
}

// Config holds the dependencies of New.
type Config struct {
	Broker Broker
	Shell  *shell.Shell
	Now    func() time.Time
}

// Pages serves the statistics of decisions and credentials.
type Pages struct {
	b     Broker
	shell *shell.Shell
	clock func() time.Time
}

// New returns the pages of this area.
func New(c Config) *Pages {
	return &Pages{b: c.Broker, shell: c.Shell, clock: c.Now}
}

// Routes are the routes of the statistics.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{ps.shell.Page("/insights", ps.insights)}
}

// Funcs returns the functions that the templates of this area call.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"took":    took,
		"share":   share,
		"answers": func(left string, rows []report.Answers) answerTable { return answerTable{left, rows} },
		"line":    issuedLine,
	}
}

// usageShown is the number of rows of the table of issued and used credentials.
const usageShown = 10

// insightsPage holds the statistics of a time window and their charts.
type insightsPage struct {
	report.Insights
	Windows []insightsWindow
	Unit    string // length of one column: hour or day
	Columns []insightsColumn

	Requests, Issued, Ended figure
	Approved, Untaken       int
	PendingRevocations      int
	Yes                     int // percent of answers; -1 = no answers
	Totals                  broker.FigureCell
	Scopes, Providers, Ends []barRow
	Habits                  []string
	Usage                   broker.Usage // its first rows
	Policy                  string       // path of the policy page
}

type insightsWindow struct {
	Value, Label string
	length       time.Duration
	Now          bool // the window shown
}

// insightsColumn is one cell with its label.
type insightsColumn struct {
	broker.FigureCell
	Label string
}

// figure is a chart with a description in words.
type figure struct {
	chart.Stack
	ID, Title, Desc   string
	First, Last, Unit string
}

// barRow is a table row with a bar.
type barRow struct {
	Name  string
	N     int
	Share float64 // percent of the largest row, 0 to 100
}

// answerTable is a table of answers, grouped by the column that Left names.
type answerTable struct {
	Left string
	Rows []report.Answers
}

// insights shows the statistics of a time window: decisions, their results, and
// issued and ended credentials.
func (ps *Pages) insights(c echo.Context, v *session.Visit) error {
	windows := []insightsWindow{{Value: "24h", Label: "24 hours", length: 23 * time.Hour}, {Value: "7d", Label: "7 days", length: 6 * 24 * time.Hour}, {Value: "30d", Label: "30 days", length: 29 * 24 * time.Hour}}
	asked, shown := c.QueryParam("window"), -1
	if asked == "" {
		asked = "24h"
	}
	for i := range windows {
		if windows[i].Value == asked {
			windows[i].Now, shown = true, i
		}
	}
	if shown < 0 {
		return broker.E(broker.Invalid, "window must be 24h, 7d or 30d.", nil)
	}
	// The window begins at a full hour or at midnight (UTC), so that the first
	// cell is complete.
	now := ps.clock()
	in, err := ps.b.Insights(c.Request().Context(), v.Principal, now.Add(-windows[shown].length), now)
	if err != nil {
		return err
	}
	used, err := ps.b.Usage(c.Request().Context(), v.Principal, in.From, report.UsageByScope)
	if err != nil {
		return err
	}
	page := insightsOf(in)
	page.Windows, page.Usage = windows, used.First(usageShown)
	page.Policy = "/policy"
	return ps.shell.Draw(c, http.StatusOK, v, "insights", shell.Frame{Title: "Insights", Nav: "/insights"}, page)
}

func insightsOf(in report.Insights) insightsPage {
	p := insightsPage{Insights: in, Unit: "day", Yes: -1}
	layout := "2 Jan"
	if in.Cell < 24*time.Hour {
		p.Unit, layout = "hour", "2 Jan 15:04"
	}
	series := map[string]*chart.Series{}
	var t broker.FigureCell
	for _, c := range in.Cells {
		p.Columns = append(p.Columns, insightsColumn{c, c.Start.UTC().Format(layout)})
		for _, n := range [...]struct {
			name string
			n    int
			sum  *int
		}{
			{"taken", c.Taken, &t.Taken}, {"fetchable", c.Fetchable, &t.Fetchable}, {"untaken", c.Untaken, &t.Untaken}, {"denied", c.Denied, &t.Denied},
			{"unanswered", c.Unanswered, &t.Unanswered}, {"withdrawn", c.Withdrawn, &t.Withdrawn}, {"waiting", c.Waiting, &t.Waiting}, {"refused", c.Refused, &t.Refused},
			{"issued", c.Issued, &t.Issued}, {"revoked", c.Revoked, &t.Revoked}, {"expired", c.Expired, &t.Expired},
		} {
			*n.sum += n.n
			if series[n.name] == nil {
				series[n.name] = &chart.Series{}
			}
			series[n.name].Of = append(series[n.name].Of, n.n)
		}
	}
	p.Totals, p.Approved, p.Untaken = t, t.Taken+t.Fetchable+t.Untaken, t.Untaken
	named := func(key, name, class string) chart.Series {
		if series[key] == nil {
			return chart.Series{Name: name, Class: class}
		}
		return chart.Series{Name: name, Class: class, Of: series[key].Of}
	}
	p.Requests = p.figure("requests", "Requests by outcome", named("taken", "approved, fetched", "f-good"), named("fetchable", "approved, can be fetched", "f-tide"),
		named("untaken", "approved, never fetched", "f-warn"), named("denied", "denied", "f-bad"), named("unanswered", "no answer", "f-agent"),
		named("withdrawn", "withdrawn", "f-edge"), named("waiting", "waiting", "f-ink"), named("refused", "refused at once", "f-line"))
	p.Issued = p.figure("issued", "Credentials issued", named("issued", "issued", "f-tide"))
	p.Ended = p.figure("ended", "Credentials ended", named("revoked", "revoked", "f-warn"), named("expired", "expired", "f-edge"))
	if n := in.All.N(); n > 0 {
		p.Yes = in.All.Yes * 100 / n
	}
	for _, o := range in.RevocationBacklog {
		p.PendingRevocations += o.Intents + o.Revoking
	}
	for _, a := range in.Approvers {
		if a.Habit() {
			p.Habits = append(p.Habits, fmt.Sprintf("%s approved %d of the last 50 requests.", agenttext.Name(a.Name), a.LastYes))
		}
	}
	p.Scopes, p.Providers = bars(in.Scopes), bars(in.Providers)
	p.Ends = bars(endsOf(in.Ends))
	return p
}

func (p *insightsPage) figure(id, title string, series ...chart.Series) figure {
	f := figure{Stack: chart.NewStack(series...), ID: id, Title: title, Unit: p.Unit}
	if n := len(p.Columns); n > 0 {
		f.First, f.Last = p.Columns[0].Label, p.Columns[n-1].Label
	}
	f.Desc = fmt.Sprintf("One column for each %s from %s to %s, UTC; at most %d. The same numbers are in the table.", p.Unit, f.First, f.Last, f.Top)
	return f
}

func bars(of []broker.Busy) []barRow {
	var out []barRow
	for _, b := range of {
		out = append(out, barRow{agenttext.Name(b.Name), b.N, 100 * float64(b.N) / float64(max(of[0].N, 1))}) // rows are sorted, the largest first
	}
	return out
}

// causes are the visible names of the ends of tasks.
var causes = map[broker.Cause]string{
	broker.CauseCompleted: "completed by its runner", broker.CauseStopped: "stopped by a person", broker.CauseDeadline: "its deadline passed",
	broker.CauseHeartbeat: "its runner sent no heartbeat in time", broker.CauseExited: "its sandbox exited", broker.CauseMissedAttestation: "its sandbox did not re-attest before the deadline",
	broker.CauseSuspicious: "denied as suspicious", broker.CauseParent: "its parent task ended",
}

func endsOf(ends []broker.TaskEnds) []broker.Busy {
	var out []broker.Busy
	for _, e := range ends {
		name, known := causes[e.Cause]
		if !known {
			name = string(e.Cause)
		}
		out = append(out, broker.Busy{Name: name, N: e.N})
	}
	return out
}

// took formats a duration, with tenths of a second below 10 s.
func took(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	}
	return shell.Span(d)
}

// share formats n as a percentage of of.
func share(n, of int) string {
	if of == 0 {
		return "none"
	}
	return fmt.Sprintf("%d %%", n*100/of)
}

// issuedLine draws the number of credentials issued in each column.
func issuedLine(columns []insightsColumn) chart.Line {
	var of []int
	for _, c := range columns {
		of = append(of, c.Issued)
	}
	return chart.NewLine(of)
}
