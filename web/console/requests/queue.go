package requests

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// queueRows is the number of requests on one page of the queue.
const queueRows = 50

type queuePage struct {
	Mine      bool // requests that this person may decide; otherwise all that they may see
	Tabs      bool // the visitor can choose between the two views
	Rows      []queueRow
	Total     string
	Counts    []count
	Form      *list.Query
	Risks     []shell.Option
	Shows     []shell.Option
	Plain     bool // the filter leaves out nothing
	Views     list.ViewBar
	First     string // address of the first page; "" = this is the first page
	Next      string // address of the next page; "" = last page
	Looked    string // number of waiting requests that the search read; "" = no search
	Short     bool   // the search stopped before the end of the queue
	Hidden    string // number of waiting requests, if none of them matches the filter; "" otherwise
	Throttled []throttledCard
	Codes     []code
	Keys      bool // shortcuts are on
}

type count struct {
	Level risk.Level
	N     string
}

// queueRow is one request. It contains facts and names from the broker, and no agent text.
type queueRow struct {
	ID, Match  string
	Level      risk.Level
	Title      risk.Title
	Task, Name string
	Owner      string
	TTL        time.Duration
	Ends       time.Time
	Notes      []string
	barred     bool // the visitor cannot decide it
	summary    summary
	Alike      []queueRow // the requests that one answer can decide with this one
	Tasks      int        // number of their tasks
	Path       string     // path of the page to decide them together
}

// Together is the number of requests that one answer can decide.
func (r queueRow) Together() int { return len(r.Alike) + 1 }

// queue shows the waiting requests that the visitor may see, highest risk first, then earliest
// deadline. Rows do not move until the person reloads the page.
func (ps *Pages) queue(c echo.Context, v *session.Visit) error {
	return ps.drawQueue(c, v, http.StatusOK, heldTyped{})
}

// drawQueue shows the queue, with the typed input of one card after a rejected form.
func (ps *Pages) drawQueue(c echo.Context, v *session.Visit, status int, in heldTyped) error {
	a, approver := list.ReadQuery(c), v.Has(broker.RoleApprover)
	f := broker.WaitFilter{Text: a.Text("q"), Provider: a.Text("provider"), TaskID: a.Text("task"), Rank: risk.Level(a.OneOf("risk", shell.Values(risks)...)).Rank(), Limit: queueRows}
	plain := len(a.Kept) == 0
	mine := a.OneOf("view", "all") == "" && approver
	for _, name := range []string{"q", "provider", "task"} {
		if len(a.Kept.Get(name)) > 200 {
			a.Wrong(name, "Write at most 200 bytes.")
		}
	}
	var err error
	if f.After, err = readPlace(a.Cursor("after")); err != nil {
		a.Fail("The cursor in this address is not valid. Open the queue again.")
	}
	page := queuePage{Mine: mine, Tabs: approver, Form: a, Risks: risks, Shows: []shell.Option{{Value: "all", Label: "I may see"}}, Plain: plain, Views: ps.views.Bar(c, v, "/queue", a), Keys: ps.people.shortcuts(c.Request().Context(), v)}
	frame := shell.Frame{Title: "Queue", Nav: "/queue"}
	if a.Unread() {
		return ps.shell.Draw(c, http.StatusUnprocessableEntity, v, "queue", frame, page)
	}
	found, err := ps.b.Waiting(c.Request().Context(), v.Principal, mine, f)
	if err != nil {
		return err
	}
	page.Total, page.Counts = countsOf(found.Counts, found.Short)
	if page.Short = found.Short; found.Looked > 0 {
		page.Looked = strconv.Itoa(found.Looked)
	}
	for _, r := range found.Requests {
		page.Rows = append(page.Rows, rowOf(v, r, ps.summaries.of(r)))
	}
	if approver {
		page.group(found.Requests)
	}
	if len(page.Rows) == 0 && !plain && !page.Short {
		// The number is optional.
		if all, err := ps.b.Waiting(c.Request().Context(), v.Principal, mine, broker.WaitFilter{Limit: 1}); err == nil && len(all.Requests) > 0 {
			page.Hidden, _ = countsOf(all.Counts, all.Short)
		}
	}
	if f.After.ID != "" {
		page.First = page.Views.Address(a)
	}
	if found.Next.ID != "" {
		a.Kept.Set("after", placeText(found.Next))
		page.Next = page.Views.Address(a)
	}
	if f.After.ID == "" && f.TaskID == "" { // a filter, such as a default view, must not hide a task that floods people
		page.Codes = codes
		if page.Throttled, err = ps.throttledCards(c, v, mine, in); err != nil {
			return err
		}
	}
	return ps.shell.Draw(c, status, v, "queue", frame, page)
}

// countsOf formats the number of waiting requests, in total and by level. A "+"
// at the last counted level means that this level or lower ones may have more.
func countsOf(counts map[int]int, short bool) (string, []count) {
	total, more := 0, ""
	for _, n := range counts {
		total += n
	}
	if short || total >= broker.WaitingCap {
		more = "+"
	}
	var out []count
	for _, l := range []risk.Level{risk.High, risk.Medium, risk.Low} {
		if n := counts[l.Rank()]; n > 0 {
			out = append(out, count{l, strconv.Itoa(n)})
		}
	}
	if len(out) > 0 {
		out[len(out)-1].N += more
	}
	return strconv.Itoa(total) + more, out
}

// group moves requests that one answer can decide below the first of them. A request with a long
// text of its agent stays a row, because a group shows all texts at once.
func (p *queuePage) group(list []broker.Request) {
	at := map[string]int{} // index in rows of the group that is not full, by approval.Alike
	rows := p.Rows[:0:0]
	for i, row := range p.Rows {
		r, key := list[i], row.summary.alike
		if key == "" || r.Reason.Len() > agentShown || row.barred {
			rows = append(rows, row)
			continue
		}
		first, is := at[key]
		if !is || len(rows[first].Alike) == approval.MaxBatch-1 {
			at[key] = len(rows)
			rows = append(rows, row)
			continue
		}
		rows[first].Alike = append(rows[first].Alike, row)
	}
	for i, row := range rows {
		ids := []string{row.ID}
		tasks := map[string]bool{row.Task: true}
		for _, a := range row.Alike {
			ids, tasks[a.Task] = append(ids, a.ID), true
		}
		rows[i].Path, rows[i].Tasks = batchLink(ids), len(tasks)
	}
	p.Rows = rows
}

func rowOf(v *session.Visit, r broker.Request, g summary) queueRow {
	row := queueRow{ID: r.ID, Match: r.Match, Title: risk.TitleOf(r.Scopes, r.Provider), Task: r.TaskID, Owner: r.Owner, TTL: r.TTL.Duration(), Ends: r.ExpiresAt, Level: g.level, Name: g.name, summary: g}
	if g.only != "" {
		row.Notes = append(row.Notes, g.only+", once")
	}
	if g.taint {
		row.Notes = append(row.Notes, "has read untrusted content")
	}
	if !g.understood {
		row.Notes = append(row.Notes, "not understood")
	}
	if r.Asked > 1 {
		row.Notes = append(row.Notes, "asked more than once")
	}
	if row.barred = whyNot(shell.View{Who: v, Now: v.Now, Zone: time.UTC}, r) != ""; row.barred {
		row.Notes = append(row.Notes, "you cannot decide it")
	}
	return row
}

func placeText(p broker.Place) string {
	return fmt.Sprintf("%d.%d.%s", p.Rank, p.ExpiresAt.UnixMilli(), p.ID)
}

// readPlace parses a cursor of the queue. It is not signed: it chooses where
// the list begins, and not which requests the visitor may see.
func readPlace(text string) (p broker.Place, err error) {
	if text == "" {
		return p, nil
	}
	var at int64
	_, err = fmt.Sscanf(text, "%d.%d.%s", &p.Rank, &at, &p.ID)
	p.ExpiresAt = time.UnixMilli(at)
	return p, err
}

// summary is the summary of a request's facts for a row of the queue. Parsing the facts strictly is
// most of the cost of the page, and facts never change, so each digest is parsed once. Approvers
// decide on another page, which shows the facts themselves.
type summary struct {
	level      risk.Level
	name       string // of the task
	taint      bool
	understood bool
	alike      string // see approval.Alike
	only       string // see onlyThis
}

// maxSummaries limits the cache to the rows of 20 pages.
const maxSummaries = 20 * queueRows

// summaries are summaries by request and digest.
type summaries struct {
	*expirable.LRU[[2]string, summary]
}

// onlyThis returns a short name of the one request that an approval is for: its amount, "one request" or
// "one SQL text". "" = the approval is for no single request.
func onlyThis(f broker.FactSheet) string {
	switch {
	case f.Content == nil:
		return ""
	case f.Content.NeedsPeople():
		return "one SQL text"
	}
	if sum := provider.PolicyContent(f.Content).Amount; sum.Unit != "" {
		return sum.String()
	}
	return "one request"
}

func (g summaries) of(r broker.Request) summary {
	key := [2]string{r.ID, r.Digest}
	out, is := g.Get(key)
	if is {
		return out
	}
	out.level = risk.High
	if f, err := r.Sheet(); err == nil {
		out = summary{f.Level(), agenttext.ShowLine(agenttext.From(f.TaskName), 80), len(f.Taint) > 0, f.Understood(), approval.Alike(r), onlyThis(f)}
	}
	g.Add(key, out)
	return out
}
