package insights

import (
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
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

// Pages serves the statistics of decisions and credentials.
type Pages struct {
	Broker Broker
	Shell  *shell.Shell
	Now    func() time.Time
}

// Routes are the routes of the statistics.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{ps.Shell.Page("/insights", ps.insights)}
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
	Label string // its beginning, in the zone of the reader
}

// figure is a chart with a text and a link for each column.
type figure struct {
	chart.Stack
	Title  string
	Labels []label
}

// label describes a column of a figure.
type label struct {
	Axis string // the time below the column; "" = none
	Says string // time and numbers
	Href string // list of the rows of its time
}

// barRow is a table row with a bar.
type barRow struct {
	Name  string
	N     int
	Share float64 // percent of the largest row, 0 to 100
	Href  string  // list of its credentials; "" = no link
}

// answerTable is a table of answers, grouped by the column that Left names.
type answerTable struct {
	Left string
	Rows []report.Answers
}

// insights shows the statistics of a time window: decisions, their results, and
// issued and ended credentials.
func (ps *Pages) insights(c echo.Context, v *session.Visit) error {
	windows := []insightsWindow{{Value: "24h", Label: "24 hours", length: report.KeptSpans[0]}, {Value: "7d", Label: "7 days", length: report.KeptSpans[1]}, {Value: "30d", Label: "30 days", length: report.KeptSpans[2]}}
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
	// The window begins at a full hour or at midnight (UTC), so that the first cell is complete.
	now := ps.Now()
	in, err := ps.Broker.Insights(c.Request().Context(), v.Principal, now.Add(-windows[shown].length), now)
	if err != nil {
		return err
	}
	used, err := ps.Broker.Usage(c.Request().Context(), v.Principal, in.From, report.UsageByScope)
	if err != nil {
		return err
	}
	page := insightsOf(in, shell.Zone(c), ps.Shell.Base())
	page.Windows, page.Usage = windows, used.First(usageShown)
	page.Policy = "/policy"
	return ps.Shell.Draw(c, http.StatusOK, v, "insights", shell.Frame{Title: "Insights", Nav: "/insights"}, page)
}

// insightsOf makes the page. Its times are in zone, its links begin with base.
func insightsOf(in report.Insights, zone *time.Location, base string) insightsPage {
	p := insightsPage{Insights: in, Unit: "day", Yes: -1}
	if in.Cell < 24*time.Hour {
		p.Unit = "hour"
	}
	series := map[string]*chart.Series{}
	var t broker.FigureCell
	for _, c := range in.Cells {
		p.Columns = append(p.Columns, insightsColumn{c, cellTime(c.Start.In(zone), p.Unit)})
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
	p.Requests = p.figure("Requests by outcome", base+"/audit", url.Values{"kind": {audit.RequestCreated}}, named("taken", "approved, fetched", "f-good"), named("fetchable", "approved, can be fetched", "f-tide"),
		named("untaken", "approved, never fetched", "f-agent"), named("waiting", "waiting", "f-warn"), named("denied", "denied", "f-bad"), named("refused", "refused at once", "f-ink"),
		named("unanswered", "no answer", "f-edge"), named("withdrawn", "withdrawn", "f-line"))
	p.Issued = p.figure("Credentials issued", base+"/credentials", nil, named("issued", "issued", "f-good"))
	p.Ended = p.figure("Credentials ended", base+"/audit", url.Values{"kind": {"lease."}}, named("revoked", "revoked", "f-tide"), named("expired", "expired", "f-edge"))
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
	p.Scopes, p.Providers, p.Ends = bars(in.Scopes, base+"/credentials?scope="), bars(in.Providers, base+"/credentials?provider="), bars(endsOf(in.Ends), "")
	return p
}

// figure returns a chart whose columns link to the rows at path that are in their time.
func (p *insightsPage) figure(title, path string, query url.Values, series ...chart.Series) figure {
	f := figure{Stack: chart.NewStack(series...), Title: title}
	for i, c := range p.Columns {
		rows := url.Values{"from": {c.Start.UTC().Format(time.RFC3339)}, "to": {c.Start.Add(p.Cell).UTC().Format(time.RFC3339)}}
		maps.Copy(rows, query)
		l := label{Says: c.Label + ":", Href: path + "?" + rows.Encode()}
		if len(p.Columns) <= 8 || i%4 == 0 && i+3 < len(p.Columns) {
			l.Axis = c.Label
		}
		for _, s := range series {
			if i < len(s.Of) && s.Of[i] > 0 {
				l.Says += fmt.Sprintf(" %d %s;", s.Of[i], s.Name)
			}
		}
		l.Says = strings.TrimRight(l.Says, ":;")
		f.Labels = append(f.Labels, l)
	}
	return f
}

// cellTime formats the beginning of a column in the zone of the reader. Days begin at midnight UTC.
func cellTime(start time.Time, unit string) string {
	if _, offset := start.Zone(); unit == "day" && offset == 0 {
		return start.Format("2 Jan")
	}
	return start.Format("2 Jan 15:04")
}

// bars returns the rows of a table with bars. list is the URL of a list up to
// the value of the filter for a name.
func bars(of []broker.Busy, list string) []barRow {
	var out []barRow
	for _, b := range of {
		row := barRow{Name: agenttext.Name(b.Name), N: b.N, Share: 100 * float64(b.N) / float64(max(of[0].N, 1))} // rows are sorted, the largest first
		if list != "" && row.Name == b.Name {                                                                     // filters refuse invisible characters
			row.Href = list + url.QueryEscape(b.Name)
		}
		out = append(out, row)
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
