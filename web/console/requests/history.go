package requests

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// historyLook limits the requests that one page scans, because no index covers
// approvers, risks and rules.
const historyLook = 1000

type historyPage struct {
	Form    *list.Query
	Period  list.Period
	States  []shell.Option
	Risks   []shell.Option
	Rows    []historyRow
	Views   list.ViewBar
	Address string
	Mine    string // id of the visitor, an approver; "" = the visitor is no approver
	Pager   list.Pager
}

// historyRow is a request with its outcome.
type historyRow struct {
	ID, Match string
	Title     risk.Title
	Level     risk.Level
	Task      string
	Name      string // of the task
	Owner     string
	At        time.Time     // of the outcome, or of the request while it waits
	Took      time.Duration // from the request to the outcome
	Word      string
	Tone      string // CSS class
	By        []string
	Detail    string // granted scope and time, or the reason of the denial
}

var risks = []shell.Option{{Value: string(risk.High), Label: "high"}, {Value: string(risk.Medium), Label: "medium"}, {Value: string(risk.Low), Label: "low"}}

var historyStates = []shell.Option{
	{Value: string(broker.RequestPending), Label: "waiting"}, {Value: string(broker.RequestApproved), Label: "approved, not fetched yet"}, {Value: string(broker.RequestIssued), Label: "approved and issued"},
	{Value: string(broker.RequestDenied), Label: "denied"}, {Value: string(broker.RequestExpired), Label: "expired"}, {Value: string(broker.RequestWithdrawn), Label: "withdrawn"},
}

// history lists requests with their outcomes, the newest request first.
func (ps *Pages) history(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	f := broker.RequestFilter{State: broker.RequestState(a.OneOf("state", shell.Values(historyStates)...)), Owner: a.Text("owner"), TaskID: a.Text("task")}
	period := a.Period(shell.Zone(c), v.Now)
	f.From, f.To = period.From, period.To
	by, level, rule := a.Text("by"), a.OneOf("risk", shell.Values(risks)...), a.Text("rule")
	after, before := a.Cursor("after"), a.Cursor("before")
	listKey := "requests?" + a.Kept.Encode()
	place, back := ps.cursors.Place(a, listKey, after, before)
	wrong := a.Unread()
	page := historyPage{Form: a, Period: period, States: historyStates, Risks: risks, Views: ps.views.Bar(c, v, "/requests", a)}
	page.Address = page.Views.Address(a)
	if v.Has(broker.RoleApprover) {
		page.Mine = v.ID
	}
	frame := shell.Frame{Title: "Requests", Nav: "/requests"}
	if wrong {
		return ps.shell.Draw(c, http.StatusUnprocessableEntity, v, "history", frame, page)
	}
	f.Page = broker.Page{After: place, Desc: !back, Limit: list.Rows + 1}
	if by != "" || level != "" || rule != "" {
		f.Page.Limit = historyLook
	}
	found, err := ps.b.Requests(c.Request().Context(), v.Principal, f)
	if err != nil {
		return err
	}
	in := list.Paging{List: listKey, At: page.Address, Placed: place != "", Back: back}
	shown, short := list.Collect(found, f.Page.Limit, func(r broker.Request) string { return r.ID }, &in, func(r broker.Request) bool {
		return (by == "" || slices.ContainsFunc(r.Votes, func(o broker.Vote) bool { return o.By == by })) &&
			(level == "" || string(ps.summaries.of(r).level) == level) && (rule == "" || hasRule(r, rule))
	})
	for _, r := range shown {
		page.Rows = append(page.Rows, ps.outcomeOf(r, v.Now))
	}
	page.Pager = ps.cursors.Pager(in)
	page.Pager.Short, page.Pager.Look = short, historyLook
	return ps.shell.Draw(c, http.StatusOK, v, "history", frame, page)
}

func hasRule(r broker.Request, rule string) bool {
	f, err := r.Sheet()
	return err == nil && slices.Contains(f.Rules, rule)
}

func (ps *Pages) outcomeOf(r broker.Request, now time.Time) historyRow {
	g := ps.summaries.of(r)
	row := historyRow{
		ID: r.ID, Match: r.Match, Title: risk.TitleOf(r.Scopes, r.Provider), Level: g.level, Task: r.TaskID, Name: g.name, Owner: r.Owner,
		At: r.DecidedAt, Word: string(r.State),
	}
	for _, o := range r.Votes {
		row.By = append(row.By, o.By)
	}
	switch r.State {
	case broker.RequestApproved, broker.RequestIssued:
		row.Tone, row.Detail = "good", r.Granted.String()+" for "+shell.Span(r.GrantedTTL.Duration())
	case broker.RequestDenied:
		row.Tone, row.Detail = "bad", spoken(r.Code)
	case broker.RequestExpired:
		row.At, row.Tone = r.ExpiresAt, "warn"
	case broker.RequestPending:
		row.At, row.Word, row.Tone = r.CreatedAt, "waiting", "warn"
		if !r.ExpiresAt.After(now) { // ebb has not written the expiry yet
			row.At, row.Word = r.ExpiresAt, "expired"
		}
	}
	row.Took = row.At.Sub(r.CreatedAt)
	return row
}
