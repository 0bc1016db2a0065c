package console

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/web"
	"ebb/web/console/chart"
)

// usageShown is how many rows there are of what was issued and used.
const usageShown = 10

// insightsPage is what a window says: numbers of the broker's, and where they are drawn.
type insightsPage struct {
	broker.Insights
	Windows []insightsWindow
	Unit    string // what one column is: hour or day
	Columns []insightsColumn

	Requests, Issued, Ended figure
	Approved, Untaken       int
	Owed                    int
	Yes                     int // percent; -1 = nobody decided
	Totals                  broker.FigureCell
	Scopes, Providers, Ends []barRow
	Habits                  []string
	Usage                   broker.Usage // its first rows
	Policy                  string       // path of the page where rules are written; "" = there is none
}

type insightsWindow struct {
	Value, Label string
	length       time.Duration
	Now          bool // it is the one shown
}

// insightsColumn is one cell, named.
type insightsColumn struct {
	broker.FigureCell
	Label string
}

// figure is a chart with what it shows in words.
type figure struct {
	chart.Stack
	ID, Title, Desc   string
	First, Last, Unit string
}

// barRow is a row of a table with a bar in it.
type barRow struct {
	Name  string
	N     int
	Share float64 // 0 to 100, of the largest
}

// answerTable is a table of answers, by what Left says.
type answerTable struct {
	Left string
	Rows []broker.Answers
}

// insights is what happened in a window: how people decide, what came of it, what was
// issued and how it ended.
func (s *Console) insights(c echo.Context, v *visit) error {
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
		return broker.E(broker.Invalid, "There is no such window. Choose 24h, 7d or 30d.", nil)
	}
	// The first cell is whole: the window begins at a full hour, or at midnight (UTC).
	now := s.cfg.Now()
	in, err := s.b.Insights(c.Request().Context(), v.Principal, now.Add(-windows[shown].length), now)
	if err != nil {
		return err
	}
	used, err := s.b.Usage(c.Request().Context(), v.Principal, in.From, broker.UsageByScope)
	if err != nil {
		return err
	}
	page := insightsOf(in)
	page.Windows, page.Usage = windows, used.First(usageShown)
	if slices.ContainsFunc(s.Routes(), func(r web.Route) bool { return r.Method == http.MethodGet && r.Path == "/policy" }) {
		page.Policy = "/policy"
	}
	return s.draw(c, http.StatusOK, v, "insights", frame{Title: "Insights", Nav: "/insights"}, page)
}

func insightsOf(in broker.Insights) insightsPage {
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
	for _, o := range in.Owing {
		p.Owed += o.Intents + o.Revoking
	}
	for _, a := range in.Approvers {
		if a.Habit() {
			p.Habits = append(p.Habits, fmt.Sprintf("%s said yes to %d of the last 50 requests.", agenttext.Name(a.Name), a.LastYes))
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
		out = append(out, barRow{agenttext.Name(b.Name), b.N, 100 * float64(b.N) / float64(max(of[0].N, 1))}) // the first has the most
	}
	return out
}

// causes are the ends of tasks in words.
var causes = map[broker.Cause]string{
	broker.CauseCompleted: "completed by its runner", broker.CauseStopped: "stopped by a person", broker.CauseDeadline: "its deadline passed",
	broker.CauseHeartbeat: "its runner went silent", broker.CauseExited: "its sandbox is gone", broker.CauseLapsed: "its sandbox did not attest again",
	broker.CauseSuspicious: "denied as suspicious", broker.CauseParent: "the task that delegated to it was over",
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

// took is a short length of time: tenths of a second below ten.
func took(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	}
	return span(d)
}

// share is how many of all, in percent.
func share(n, of int) string {
	if of == 0 {
		return "none"
	}
	return fmt.Sprintf("%d %%", n*100/of)
}

// issuedLine draws how many credentials were issued.
func issuedLine(columns []insightsColumn) chart.Line {
	var of []int
	for _, c := range columns {
		of = append(of, c.Issued)
	}
	return chart.NewLine(of)
}
