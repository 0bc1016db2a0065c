package requests

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/risk"
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
	Filter    queueFilter
	First     string // query of the first page; "" = this is the first page
	Next      string // query of the next page; "" = last page
	Looked    string // number of waiting requests that the search read; "" = no search
	Short     bool   // the search stopped before the end of the queue
	Throttled []throttledCard
	Codes     []code
}

type count struct {
	Level risk.Level
	N     string
}

type queueFilter struct {
	Text, Provider, Task, Risk string
	All                        bool
}

func (f queueFilter) unfiltered() bool {
	f.All = false
	return f == queueFilter{}
}

func (f queueFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"q": f.Text, "provider": f.Provider, "task": f.Task, "risk": f.Risk} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.All {
		q.Set("view", "all")
	}
	return q
}

// queueRow is one request. It contains facts and names from the broker, and no
// agent text.
type queueRow struct {
	ID, Match  string
	Level      risk.Level
	Title      risk.Title
	Task, Name string
	Owner      string
	TTL        time.Duration
	Ends       time.Time
	Notes      []string
	summary    summary
	Batch      int    // number of requests of the task that one answer can approve; set on the first of them
	Path       string // path of the batch page
}

// queue shows the waiting requests that the visitor may see, highest risk
// first, then earliest deadline. Rows do not move until the person reloads the
// page.
func (ps *Pages) queue(c echo.Context, v *session.Visit) error {
	return ps.drawQueue(c, v, http.StatusOK, heldTyped{})
}

// drawQueue shows the queue, with the typed input of one card after a rejected
// form.
func (ps *Pages) drawQueue(c echo.Context, v *session.Visit, status int, in heldTyped) error {
	q := c.QueryParams()
	approver := v.Has(broker.RoleApprover)
	f := queueFilter{Text: q.Get("q"), Provider: q.Get("provider"), Task: q.Get("task"), Risk: q.Get("risk"), All: q.Get("view") == "all" || !approver}
	after, err := readPlace(q.Get("after"))
	if err != nil {
		return err
	}
	if len(f.Text) > 200 || len(f.Provider) > 200 || len(f.Task) > 200 {
		return broker.E(broker.Invalid, "Each search field must have at most 200 bytes.", nil)
	}
	found, err := ps.b.Waiting(c.Request().Context(), v.Principal, !f.All, broker.WaitFilter{
		Text: f.Text, Provider: f.Provider, TaskID: f.Task, Rank: risk.Level(f.Risk).Rank(), After: after, Limit: queueRows,
	})
	if err != nil {
		return err
	}
	page := queuePage{Mine: !f.All, Tabs: approver, Filter: f}
	page.Total, page.Counts = countsOf(found.Counts, found.Short)
	if page.Short = found.Short; found.Looked > 0 {
		page.Looked = strconv.Itoa(found.Looked)
	}
	for _, r := range found.Requests {
		page.Rows = append(page.Rows, rowOf(v, r, ps.summaries.of(r)))
	}
	if approver {
		page.offerBatch(v, found.Requests)
	}
	if after.ID != "" {
		page.First = "?" + f.query().Encode()
	}
	if found.Next.ID != "" {
		next := f.query()
		next.Set("after", placeText(found.Next))
		page.Next = "?" + next.Encode()
	}
	if after.ID == "" && f.unfiltered() {
		page.Codes = codes
		if page.Throttled, err = ps.throttledCards(c, v, !f.All, in); err != nil {
			return err
		}
	}
	return ps.shell.Draw(c, status, v, "queue", shell.Frame{Title: "Queue", Nav: "/queue"}, page)
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

// offerBatch adds a link to the batch page to the first of several requests
// that one answer can approve.
func (p *queuePage) offerBatch(v *session.Visit, list []broker.Request) {
	type of struct{ task, provider string }
	groups, first := map[of][]string{}, map[of]int{}
	for i, r := range list {
		key := of{r.TaskID, r.Provider}
		g := p.Rows[i].summary
		if !g.understood || g.level == risk.High || len(groups[key]) == approval.MaxBatch || whyNot(shell.View{Who: v, Now: v.Now, Zone: time.UTC}, r) != "" {
			continue
		}
		if len(groups[key]) == 0 {
			first[key] = i
		}
		groups[key] = append(groups[key], r.ID)
	}
	for key, ids := range groups {
		if len(ids) > 1 {
			p.Rows[first[key]].Batch, p.Rows[first[key]].Path = len(ids), batchLink(ids)
		}
	}
}

func rowOf(v *session.Visit, r broker.Request, g summary) queueRow {
	row := queueRow{ID: r.ID, Match: r.Match, Title: risk.TitleOf(r.Scopes, r.Provider), Task: r.TaskID, Owner: r.Owner, TTL: r.TTL.Duration(), Ends: r.ExpiresAt, Level: g.level, Name: g.name, summary: g}
	if g.taint {
		row.Notes = append(row.Notes, "has read untrusted content")
	}
	if !g.understood {
		row.Notes = append(row.Notes, "not understood")
	}
	if r.Asked > 1 {
		row.Notes = append(row.Notes, "asked more than once")
	}
	if whyNot(shell.View{Who: v, Now: v.Now, Zone: time.UTC}, r) != "" {
		row.Notes = append(row.Notes, "you cannot decide it")
	}
	return row
}

type placeJSON struct {
	Rank int    `json:"r"`
	At   int64  `json:"t"` // Unix milliseconds
	ID   string `json:"i"`
}

func placeText(p broker.Place) string {
	b, _ := json.Marshal(placeJSON{p.Rank, p.ExpiresAt.UnixMilli(), p.ID}) // these members always marshal
	return base64.RawURLEncoding.EncodeToString(b)
}

// readPlace parses a cursor of the queue. It is not signed: it chooses where
// the list begins, and not which requests the visitor may see.
func readPlace(text string) (broker.Place, error) {
	if text == "" {
		return broker.Place{}, nil
	}
	var p placeJSON
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.ID == "" || len(text) > 200 {
		return broker.Place{}, broker.E(broker.Invalid, "The cursor in this address is not valid. Open the queue again.", err)
	}
	return broker.Place{Rank: p.Rank, ExpiresAt: time.UnixMilli(p.At), ID: p.ID}, nil
}

// summary is the summary of a request's facts for a row of the queue. Parsing the
// facts strictly is most of the cost of the page, and facts never change, so
// each digest is parsed once. Approvers decide on another page, which shows the
// facts themselves.
type summary struct {
	level      risk.Level
	name       string // of the task
	taint      bool
	understood bool
}

// maxSummaries limits the cache to the rows of 20 pages.
const maxSummaries = 20 * queueRows

type summaries struct {
	mu    sync.Mutex
	known map[[2]string]summary // by request and digest
}

func (g *summaries) of(r broker.Request) summary {
	key := [2]string{r.ID, r.Digest}
	g.mu.Lock()
	out, is := g.known[key]
	g.mu.Unlock()
	if is {
		return out
	}
	out.level = risk.High
	if f, err := r.Sheet(); err == nil {
		out = summary{f.Level(), agenttext.ShowLine(agenttext.From(f.TaskName), 80), len(f.Taint) > 0, f.Understood()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxSummaries {
		g.known = map[[2]string]summary{}
	}
	g.known[key] = out
	return out
}
