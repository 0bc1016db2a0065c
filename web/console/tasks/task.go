package tasks

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

const (
	treeRows    = 100 // child tasks listed on the page of a task
	drawnLeases = 60  // credentials in a timeline
	drawnMarks  = 400 // audit entries in a timeline
	stopWait    = 2 * time.Second
)

type taskPage struct {
	task
	Above, Below []task
	Reads        bool // the visitor may read its audit entries
	Listed       bool // the visitor may list credentials
	Transcripts  list.Transcripts
	Stop         bool // the visitor may stop it
	Resume       bool // the visitor may resume it
	Live         []list.Credential
	MoreLive     bool
	Line         timeline
	Shows        []show
	Entries      []audit.Entry
	Names        map[string]string // of the tasks of the entries, by id
	Pager        list.Pager
	CSV, JSONL   string
	Address      string
	Tail         string // URL of the newest rows; "" = this page does not show the newest rows
}

// show is a checkbox that selects kinds of audit entries.
type show struct {
	Name, Label string
	On          bool
	kinds       []string
}

var shows = []show{
	{"decisions", "requests and decisions", false, []string{"request.", "token."}},
	{"credentials", "credentials", false, []string{"lease.", "orphan."}},
	{"sandbox", "the sandbox", false, []string{"sandbox."}},
	{"task", "the task", false, []string{"task."}},
}

// taskQuery reads which audit entries of a task the list shows.
func taskQuery(a *list.Query, id string) ([]show, broker.EntryQuery) {
	q, all := broker.EntryQuery{TaskID: id}, slices.Clone(shows)
	for i, sh := range all {
		if all[i].On = a.OneOf(sh.Name, "on") != ""; all[i].On {
			q.Kinds = append(q.Kinds, sh.kinds...)
		}
	}
	return all, q
}

// titleOf returns the title of a document about a task: its quoted name, or its short id, and what
// the document is.
func titleOf(t broker.Task, what string) string {
	name := shell.ShortID(t.ID)
	if t.Name != "" {
		name = audit.Quote(agenttext.ShowLine(agenttext.From(t.Name), 80))
	}
	return name + " · " + what
}

// taskTimeline shows one task and its timeline.
func (ps *Pages) taskTimeline(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	page := taskPage{}
	var q broker.EntryQuery
	page.Shows, q = taskQuery(a, c.Param("id"))
	after, before := a.Cursor("after"), a.Cursor("before")
	at := list.Address("/tasks/"+q.TaskID, a.Kept.Encode())
	if place, back := ps.Cursors.Place(a, at, after, before); place != "" {
		q.Place, q.Back = list.EntryPlace(place), back
	}
	if err := a.Done(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := ps.Broker.Task(ctx, v.Principal, q.TaskID)
	if err != nil {
		return err
	}
	page.task, page.Names = task{t}, map[string]string{t.ID: t.Name}
	page.Reads, page.Listed = v.Has(session.AuditReaders...), v.Has(session.CredentialReaders...)
	page.Transcripts = ps.Entries.Transcripts(v, "task="+t.ID, transcript.Filter{TaskID: t.ID})
	page.Stop = t.State != broker.TaskClosed && (v.Has(broker.RoleOperator) || v.Has(broker.RoleRunner) && t.Runner == v.ID)
	page.Resume = approval.MayResume(v.Principal, t)
	if err := ps.relatives(c, v, &page); err != nil {
		return err
	}
	if page.Reads {
		if err := ps.taskRecord(c, v, &page, q, at); err != nil {
			return err
		}
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "task", shell.Frame{Title: titleOf(t, "Task"), Nav: "/tasks"}, page)
}

// relatives loads the ancestors and descendants of the task.
func (ps *Pages) relatives(c echo.Context, v *session.Visit, page *taskPage) error {
	ctx := c.Request().Context()
	if len(page.Ancestors) > 0 {
		above, err := ps.Broker.Tasks(ctx, v.Principal, broker.TaskFilter{IDs: page.Ancestors})
		if err != nil {
			return err
		}
		for _, t := range above {
			page.Above = append(page.Above, task{t})
		}
	}
	if page.Delegation == nil {
		return nil
	}
	below, err := ps.Broker.Tasks(ctx, v.Principal, broker.TaskFilter{Below: page.ID, Page: broker.Page{Limit: treeRows}})
	for _, t := range below {
		page.Below = append(page.Below, task{t})
	}
	return err
}

// taskRecord loads the active credentials, the timeline and the audit entries of a task.
func (ps *Pages) taskRecord(c echo.Context, v *session.Visit, page *taskPage, q broker.EntryQuery, at string) error {
	ctx := c.Request().Context()
	live, err := ps.Broker.LeaseList(ctx, v.Principal, broker.LeaseQuery{TaskID: page.ID, State: broker.LeaseLive, Limit: list.Rows, Look: list.Look})
	if err != nil {
		return err
	}
	for _, l := range live.Leases {
		page.Live = append(page.Live, list.Credential{Lease: l, Now: v.Now})
	}
	page.MoreLive = live.More
	drawn, err := ps.Broker.LeaseList(ctx, v.Principal, broker.LeaseQuery{TaskID: page.ID, Order: broker.LeaseOldest, Limit: drawnLeases, Look: drawnLeases + 1})
	if err != nil {
		return err
	}
	marks, err := ps.Broker.EntryList(ctx, v.Principal, broker.EntryQuery{TaskID: page.ID, Kinds: []string{"task.", "sandbox.", "request.", audit.TokenDenied}, Oldest: true, Limit: drawnMarks, Look: list.Look})
	if err != nil {
		return err
	}
	page.Line = draw(page.Task, drawn.Leases, marks.Entries, v.Now)
	page.Line.Cut = drawn.More || marks.More
	page.Entries, page.Pager, err = ps.Entries.Page(c, v, q, at, at)
	if page.Address = at; q.Place.Writer == "" && len(page.Entries) > 0 && page.State != broker.TaskClosed {
		page.Tail = strings.Replace(at, "/tasks/"+page.ID, "/tasks/"+page.ID+"/tail", 1)
	}
	page.CSV, page.JSONL = "/audit.csv?task="+page.ID, "/audit.jsonl?task="+page.ID
	return err
}

// stopTask stops a task and revokes its credentials. It works while the LiveStore is unavailable.
func (ps *Pages) stopTask(c echo.Context, v *session.Visit) error {
	id, reason := c.Param("id"), strings.TrimSpace(c.Request().PostForm.Get("reason"))
	if reason == "" {
		return broker.E(broker.Invalid, "A reason is required: it is written to the audit log. Go back and fill it in.", nil)
	}
	if _, err := ps.Broker.StopTask(c.Request().Context(), v.Principal, id, reason, stopWait); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/tasks/"+id)
}

// resumeTask lets a paused task mint again.
func (ps *Pages) resumeTask(c echo.Context, v *session.Visit) error {
	id := c.Param("id")
	if _, err := ps.Broker.ResumeTask(c.Request().Context(), v.Principal, id); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/tasks/"+id)
}

// receipt sends the signed receipt of a closed task, as 'ebb task receipt verify' reads it.
func (ps *Pages) receipt(c echo.Context, v *session.Visit) error {
	_, jws, err := ps.Broker.Receipt(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentDisposition, `attachment; filename="ebb-receipt.jws"`)
	return c.Blob(http.StatusOK, "application/jose", []byte(jws))
}

// tailTask returns the newest audit entries of a task, of the kinds that the page's query selects.
func (ps *Pages) tailTask(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	_, q := taskQuery(a, c.Param("id"))
	if err := a.Done(); err != nil {
		return err
	}
	q.Limit, q.Look = list.TailRows, list.Look
	slice, err := ps.Broker.EntryList(c.Request().Context(), v.Principal, q)
	if err != nil {
		return err
	}
	names, err := ps.Entries.Names(c.Request().Context(), v.Principal, slice.Entries)
	if err != nil {
		return err
	}
	vw, out := ps.Shell.View(c, v, shell.Frame{}, nil), list.Tail{Rows: []list.TailRow{}}
	for _, e := range ps.Entries.Table(vw, slice.Entries, names).Rows {
		row := list.TailRow{Key: e.Key(), Text: map[string]string{"when": shell.Clock(vw, e.At), "id": "entry " + e.Key(), "kind": e.Kind, "by": shell.ShortID(agenttext.Name(e.Actor)), "says": e.Says}, Href: map[string]string{"self": vw.Base + "/audit/" + e.Key()}}
		for _, what := range e.About {
			row.Text["about"] += what.Short() + " "
		}
		out.Rows = append(out.Rows, row)
	}
	return c.JSON(http.StatusOK, out)
}
