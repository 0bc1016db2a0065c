package console

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/risk"
)

// queueRows is how many requests one page lists.
const queueRows = 50

type queuePage struct {
	Mine   bool // what this person has a say in; otherwise all that they may see
	Tabs   bool // there are both
	Rows   []queueRow
	Total  string
	Counts []count
	Filter queueFilter
	First  string // query of the first page, when this is another
	Next   string // query of the next page; "" = there is none
	Looked string // at how many that wait, when something was looked for in them; "" = there was no need
	Short  bool   // and others wait after them
	Held   []heldCard
	Codes  []code
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

// queueRow is one request: facts and names of the broker's, nothing that an agent wrote.
type queueRow struct {
	ID, Match  string
	Level      risk.Level
	Title      risk.Title
	Task, Name string
	Owner      string
	TTL        time.Duration
	Ends       time.Time
	Notes      []string
	gist       gist
	Together   int    // how many of its task can be approved in one answer, this the first of them
	Path       string // the page for that
}

// queue is every request that waits for a person and that this one may see: the worst
// first, of these what ends first. It is a picture of one moment: rows move when the
// person asks for the page again.
func (s *Console) queue(c echo.Context, v *visit) error {
	return s.drawQueue(c, v, http.StatusOK, heldTyped{})
}

// drawQueue draws the queue with what was typed into one of its cards, if anything was.
func (s *Console) drawQueue(c echo.Context, v *visit, status int, in heldTyped) error {
	q := c.QueryParams()
	approver := v.Has(broker.RoleApprover)
	f := queueFilter{Text: q.Get("q"), Provider: q.Get("provider"), Task: q.Get("task"), Risk: q.Get("risk"), All: q.Get("view") == "all" || !approver}
	after, err := readPlace(q.Get("after"))
	if err != nil {
		return err
	}
	if len(f.Text) > 200 || len(f.Provider) > 200 || len(f.Task) > 200 {
		return broker.E(broker.Invalid, "What you search for is too long.", nil)
	}
	found, err := s.b.Waiting(c.Request().Context(), v.Principal, !f.All, broker.WaitFilter{
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
		page.Rows = append(page.Rows, rowOf(v, r, s.gists.of(r)))
	}
	if approver {
		page.offerTogether(v, found.Requests)
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
		if page.Held, err = s.heldCards(c, v, !f.All, in); err != nil {
			return err
		}
	}
	return s.draw(c, status, v, "queue", frame{Title: "Queue", Nav: "/queue"}, page)
}

// countsOf is how much waits, in all and by level. Of the last level that was counted there
// may be more, and of those below it.
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

// offerTogether puts at the first of several that may be approved by one answer the way
// to their page.
func (p *queuePage) offerTogether(v *visit, list []broker.Request) {
	type of struct{ task, provider string }
	groups, first := map[of][]string{}, map[of]int{}
	for i, r := range list {
		key := of{r.TaskID, r.Provider}
		g := p.Rows[i].gist
		if !g.understood || g.level == risk.High || len(groups[key]) == broker.MaxTogether || whyNot(view{Who: v, Now: v.now, Zone: time.UTC}, r) != "" {
			continue
		}
		if len(groups[key]) == 0 {
			first[key] = i
		}
		groups[key] = append(groups[key], r.ID)
	}
	for key, ids := range groups {
		if len(ids) > 1 {
			p.Rows[first[key]].Together, p.Rows[first[key]].Path = len(ids), together(ids)
		}
	}
}

func rowOf(v *visit, r broker.Request, g gist) queueRow {
	row := queueRow{ID: r.ID, Match: r.Match, Title: risk.TitleOf(r.Scopes, r.Provider), Task: r.TaskID, Owner: r.Owner, TTL: r.TTL.Duration(), Ends: r.ExpiresAt, Level: g.level, Name: g.name, gist: g}
	if g.taint {
		row.Notes = append(row.Notes, "has read what others write")
	}
	if !g.understood {
		row.Notes = append(row.Notes, "not understood")
	}
	if r.Asked > 1 {
		row.Notes = append(row.Notes, "asked more than once")
	}
	if whyNot(view{Who: v, Now: v.now, Zone: time.UTC}, r) != "" {
		row.Notes = append(row.Notes, "not for you to decide")
	}
	return row
}

type placeJSON struct {
	Rank int    `json:"r"`
	At   int64  `json:"t"` // Unix milliseconds
	ID   string `json:"i"`
}

func placeText(p broker.Place) string {
	b, _ := json.Marshal(placeJSON{p.Rank, p.ExpiresAt.UnixMilli(), p.ID}) // plain members
	return base64.RawURLEncoding.EncodeToString(b)
}

// readPlace reads a cursor. Anybody may write one: it chooses where a list begins, not
// what is on it.
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
		return broker.Place{}, broker.E(broker.Invalid, "The address of this page of the queue is damaged. Go to the queue anew.", err)
	}
	return broker.Place{Rank: p.Rank, ExpiresAt: time.UnixMilli(p.At), ID: p.ID}, nil
}
