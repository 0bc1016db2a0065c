package credentials

import (
	"context"
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
	Form    *list.Query
	Period  list.Period
	States  []shell.Option
	Sorts   []shell.Option
	Rows    []list.Credential
	Views   list.ViewBar
	Tally   *tally // nil: the visitor may see only some credentials
	Address string // of this list, without a cursor
	CSV     string
	JSONL   string
	Proof   string // the proof of their audit entries; "" = the visitor may not read the whole audit log
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
func leaseQuery(c echo.Context, v *session.Visit, a *list.Query) (broker.LeaseQuery, list.Period) {
	p := a.Period(shell.Zone(c), v.Now)
	return broker.LeaseQuery{
		State: broker.LeaseState(a.OneOf("state", shell.Values(leaseStates)...)), Provider: a.Text("provider"), Owner: a.Text("owner"), TaskID: a.Text("task"),
		Sandbox: a.Text("sandbox"), Text: a.Text("scope"), Resource: a.Text("resource"), From: p.From, To: p.To,
		Order: broker.LeaseOrder(a.OneOf("sort", shell.Values(leaseSorts)...)),
	}, p
}

// credentials lists issued credentials in every state.
func (ps *Pages) credentials(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	q, period := leaseQuery(c, v, a)
	after, before := a.Cursor("after"), a.Cursor("before")
	if q.Order == broker.LeaseEnding && q.State != "" && q.State != broker.LeaseLive {
		a.Wrong("sort", "Only active credentials can be sorted by expiry. Set the state to active or any.")
	}
	listKey := "credentials?" + a.Kept.Encode()
	if place, back := ps.Cursors.Place(a, listKey, after, before); place != "" {
		q.Place, q.Back = leasePlace(place), back
	}
	wrong := a.Unread()
	page := credentialsPage{Form: a, Period: period, States: leaseStates, Sorts: leaseSorts, Views: ps.Views.Bar(c, v, "/credentials", a)}
	page.Address = page.Views.Address(a)
	if wrong {
		return ps.Shell.Draw(c, http.StatusUnprocessableEntity, v, "credentials", shell.Frame{Title: "Credentials", Nav: "/credentials"}, page)
	}
	if v.Has(session.AuditReaders...) {
		page.CSV, page.JSONL = list.Address("/credentials.csv", a.Kept.Encode()), list.Address("/credentials.jsonl", a.Kept.Encode())
	}
	if v.Has(broker.RoleAuditor, broker.RoleOperator) {
		page.Proof = list.Address("/credentials.proof.jsonl", a.Kept.Encode())
	}
	ctx := c.Request().Context()
	if v.Has(broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer) {
		t, err := ps.Broker.LeaseTally(ctx, v.Principal)
		if err != nil {
			return err
		}
		page.Tally = tallyOf(t)
	} else if q.TaskID == "" && v.Has(session.AuditReaders...) {
		page.Narrow = "You can see the credentials of your own tasks only. Enter the id of a task, or open a task from the list of tasks."
		return ps.Shell.Draw(c, http.StatusOK, v, "credentials", shell.Frame{Title: "Credentials", Nav: "/credentials"}, page)
	}
	q.Limit, q.Look = list.Rows, list.Look
	slice, err := ps.Broker.LeaseList(ctx, v.Principal, q)
	if err != nil {
		return err
	}
	if page.Rows, err = ps.rowsOf(ctx, v, slice.Leases); err != nil {
		return err
	}
	page.Pager = ps.leasePager(listKey, page.Address, q, slice)
	if q.Place.ID == "" && len(page.Rows) > 0 && (q.Order == "" || q.Order == broker.LeaseNewest) {
		page.Tail = list.Address("/credentials/tail", a.Kept.Encode())
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "credentials", shell.Frame{Title: "Credentials", Nav: "/credentials"}, page)
}

// rowsOf returns leases with the names of their tasks and the people who approved their requests.
func (ps *Pages) rowsOf(ctx context.Context, v *session.Visit, leases []broker.Lease) ([]list.Credential, error) {
	by, err := ps.approvers(ctx, v.Principal, leases)
	if err != nil {
		return nil, err
	}
	names, err := list.TaskNames(ctx, ps.Broker, v.Principal, leases, func(l broker.Lease) string { return l.TaskID })
	if err != nil {
		return nil, err
	}
	rows := make([]list.Credential, len(leases))
	for i, l := range leases {
		rows[i] = list.Credential{Lease: l, Now: v.Now, Approvers: by[l.RequestID], TaskName: names[l.TaskID]}
	}
	return rows, nil
}

// approvers returns the people who approved, by the id of the request.
func (ps *Pages) approvers(ctx context.Context, who broker.Principal, leases []broker.Lease) (map[string][]string, error) {
	out := map[string][]string{}
	var ids []string
	for _, l := range leases {
		if _, known := out[l.RequestID]; l.RequestID != "" && !known {
			out[l.RequestID], ids = nil, append(ids, l.RequestID)
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	rs, err := ps.Broker.Requests(ctx, who, broker.RequestFilter{IDs: ids, Page: broker.Page{Limit: len(ids)}})
	for _, r := range rs {
		for _, o := range r.Votes {
			if o.Approve {
				out[r.ID] = append(out[r.ID], o.By)
			}
		}
	}
	return out, err
}

// leasePager returns the links to the pages next to this one.
func (ps *Pages) leasePager(listKey, at string, q broker.LeaseQuery, slice broker.LeaseSlice) list.Pager {
	in := list.Paging{List: listKey, At: at, Placed: q.Place.ID != "", Back: q.Back, More: slice.More, Stop: placeOf(slice.Stop)}
	if n := len(slice.Leases); n > 0 {
		first, last := slice.Leases[0], slice.Leases[n-1]
		in.First, in.Last = placeOf(broker.LeasePlace{ID: first.ID, Ending: first.ExpiresAt}), placeOf(broker.LeasePlace{ID: last.ID, Ending: last.ExpiresAt})
	}
	p := ps.Cursors.Pager(in)
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
