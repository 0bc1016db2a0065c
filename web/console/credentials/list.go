package credentials

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

type credentialsPage struct {
	Filter  map[string]string
	States  []shell.Option
	Sorts   []shell.Option
	Rows    []list.Credential
	Tally   *tally // nil: the visitor may see only some credentials
	Address string // of this list, without a cursor
	CSV     string
	JSONL   string
	Pager   list.Pager
	Narrow  string // why no list is shown
	Tail    string // URL of the newest rows; "" = this page does not show the newest rows
}

type tally struct {
	Live, Ending, Making, Unconfirmed, Revoked, Expired string
	Of                                                  int // number of credentials that Revoked and Expired were counted in
	At                                                  time.Time
}

var leaseStates = []shell.Option{{Value: "live", Label: "active"}, {Value: "revoking", Label: "revoking or unsure"}, {Value: "revoked", Label: "revoked"}, {Value: "expired", Label: "expired"}, {Value: "unconfirmed", Label: "unconfirmed"}, {Value: "intent", Label: "being issued"}}

var leaseSorts = []shell.Option{{Value: "newest", Label: "newest first"}, {Value: "oldest", Label: "oldest first"}, {Value: "ending", Label: "active, earliest expiry first"}}

// leaseQuery reads the filter of the list.
func leaseQuery(a *list.Query) broker.LeaseQuery {
	return broker.LeaseQuery{
		State: broker.LeaseState(a.OneOf("state", shell.Values(leaseStates)...)), Provider: a.Text("provider"), Owner: a.Text("owner"), TaskID: a.Text("task"),
		Sandbox: a.Text("sandbox"), Text: a.Text("scope"), From: a.Moment("from"), To: a.Moment("to"),
		Order: broker.LeaseOrder(a.OneOf("sort", shell.Values(leaseSorts)...)),
	}
}

// credentials lists issued credentials in every state.
func (ps *Pages) credentials(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	q := leaseQuery(a)
	after, before := a.Cursor("after"), a.Cursor("before")
	if q.Order == broker.LeaseEnding && q.State != "" && q.State != broker.LeaseLive {
		a.Fail("Only active credentials can be sorted by expiry. Set the state to active or any.")
	}
	listKey := "credentials?" + a.Kept.Encode()
	if place, back := ps.cursors.Place(a, listKey, after, before); place != "" {
		q.Place, q.Back = leasePlace(place), back
	}
	if err := a.Done(); err != nil {
		return err
	}
	page := credentialsPage{Filter: a.Filter(), States: leaseStates, Sorts: leaseSorts}
	page.Address = list.Address("/credentials", a.Kept.Encode())
	if v.Has(session.AuditReaders...) {
		page.CSV, page.JSONL = list.Address("/credentials.csv", a.Kept.Encode()), list.Address("/credentials.jsonl", a.Kept.Encode())
	}
	ctx := c.Request().Context()
	if v.Has(broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer) {
		t, err := ps.b.LeaseTally(ctx, v.Principal)
		if err != nil {
			return err
		}
		page.Tally = tallyOf(t)
	} else if q.TaskID == "" && v.Has(session.AuditReaders...) {
		page.Narrow = "You can see the credentials of your own tasks only. Enter the id of a task, or open a task from the list of tasks."
		return ps.shell.Draw(c, http.StatusOK, v, "credentials", shell.Frame{Title: "Credentials", Nav: "/credentials"}, page)
	}
	q.Limit, q.Look = list.Rows, list.Look
	slice, err := ps.b.LeaseList(ctx, v.Principal, q)
	if err != nil {
		return err
	}
	for _, l := range slice.Leases {
		page.Rows = append(page.Rows, list.Credential{Lease: l, Now: v.Now})
	}
	page.Pager = ps.leasePager(listKey, page.Address, q, slice)
	if q.Place.ID == "" && len(page.Rows) > 0 && (q.Order == "" || q.Order == broker.LeaseNewest) {
		page.Tail = list.Address("/credentials/tail", a.Kept.Encode())
	}
	return ps.shell.Draw(c, http.StatusOK, v, "credentials", shell.Frame{Title: "Credentials", Nav: "/credentials"}, page)
}

// leasePager returns the links to the pages next to this one.
func (ps *Pages) leasePager(listKey, at string, q broker.LeaseQuery, slice broker.LeaseSlice) list.Pager {
	in := list.Paging{List: listKey, At: at, Placed: q.Place.ID != "", Back: q.Back, More: slice.More, Stop: placeOf(slice.Stop)}
	if n := len(slice.Leases); n > 0 {
		first, last := slice.Leases[0], slice.Leases[n-1]
		in.First, in.Last = placeOf(broker.LeasePlace{ID: first.ID, Ending: first.ExpiresAt}), placeOf(broker.LeasePlace{ID: last.ID, Ending: last.ExpiresAt})
	}
	p := ps.cursors.Pager(in)
	p.Short, p.Look = slice.Short, q.Look
	switch q.Order {
	case broker.LeaseOldest:
		p.Back, p.On = "Older", "Newer"
	case broker.LeaseEnding:
		p.Back, p.On = "Earlier expiry", "Later expiry"
	}
	return p
}

func placeOf(p broker.LeasePlace) string {
	return strconv.FormatInt(p.Ending.UnixMilli(), 10) + "." + p.ID
}

// leasePlace parses the text of placeOf. The text comes from a signed cursor,
// so errors are ignored.
func leasePlace(s string) broker.LeasePlace {
	at, id, _ := strings.Cut(s, ".")
	ms, _ := strconv.ParseInt(at, 10, 64)
	return broker.LeasePlace{ID: id, Ending: time.UnixMilli(ms).UTC()}
}

func tallyOf(t broker.LeaseTally) *tally {
	count := func(c broker.Count) string {
		if c.More {
			return strconv.Itoa(c.N) + "+"
		}
		return strconv.Itoa(c.N)
	}
	out := &tally{Live: count(t.Live), Ending: count(t.Revoking), Making: count(t.Intent), Unconfirmed: count(t.Unconfirmed),
		Revoked: strconv.Itoa(t.Recent[broker.LeaseRevoked]), Expired: strconv.Itoa(t.Recent[broker.LeaseExpired]), At: t.At}
	for _, n := range t.Recent {
		out.Of += n
	}
	return out
}
