package console

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/transcript"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
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
	Transcripts  transcriptsOf
	Stop         bool // the visitor may stop it
	Resume       bool // the visitor may resume it
	Live         []credential
	MoreLive     bool
	Line         timeline
	Shows        []show
	Entries      []audit.Entry
	Pager        pager
	CSV, JSONL   string
	Address      string
	Tail         string // URL of the newest rows; "" = this page does not show the newest rows
	Filter       map[string]string
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
func taskQuery(a *asked, id string) ([]show, broker.EntryQuery) {
	q, all := broker.EntryQuery{TaskID: id}, slices.Clone(shows)
	for i, sh := range all {
		if all[i].On = a.oneOf(sh.Name, "on") != ""; all[i].On {
			q.Kinds = append(q.Kinds, sh.kinds...)
		}
	}
	return all, q
}

// taskTimeline shows one task and its timeline.
func (tp *taskPages) taskTimeline(c echo.Context, v *visit) error {
	a := readAsked(c)
	page := taskPage{}
	var q broker.EntryQuery
	page.Shows, q = taskQuery(a, c.Param("id"))
	after, before := a.cursor("after"), a.cursor("before")
	at := address("/tasks/"+q.TaskID, a.kept.Encode())
	if place, back := tp.pages.place(a, at, after, before); place != "" {
		q.Place, q.Back = entryPlace(place), back
	}
	if err := a.done(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := tp.b.Task(ctx, v.Principal, q.TaskID)
	if err != nil {
		return err
	}
	page.task, page.Filter = task{t}, a.filter()
	page.Reads, page.Listed = v.Has(readers...), v.Has(credentialReaders...)
	page.Transcripts = tp.audit.transcriptsOf(v, "task="+t.ID, transcript.Filter{TaskID: t.ID})
	page.Stop = t.State != broker.TaskClosed && (v.Has(broker.RoleOperator) || v.Has(broker.RoleRunner) && t.Runner == v.ID)
	page.Resume = approval.MayResume(v.Principal, t)
	if err := tp.relatives(c, v, &page); err != nil {
		return err
	}
	if page.Reads {
		if err := tp.taskRecord(c, v, &page, q, at); err != nil {
			return err
		}
	}
	return tp.pages.draw(c, http.StatusOK, v, "task", frame{Title: "Task", Nav: "/tasks"}, page)
}

// relatives loads the ancestors and descendants of the task.
func (tp *taskPages) relatives(c echo.Context, v *visit, page *taskPage) error {
	ctx := c.Request().Context()
	if len(page.Ancestors) > 0 {
		above, err := tp.b.Tasks(ctx, v.Principal, broker.TaskFilter{IDs: page.Ancestors})
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
	below, err := tp.b.Tasks(ctx, v.Principal, broker.TaskFilter{Below: page.ID, Page: broker.Page{Limit: treeRows}})
	for _, t := range below {
		page.Below = append(page.Below, task{t})
	}
	return err
}

// taskRecord loads the active credentials, the timeline and the audit entries
// of a task.
func (tp *taskPages) taskRecord(c echo.Context, v *visit, page *taskPage, q broker.EntryQuery, at string) error {
	ctx := c.Request().Context()
	live, err := tp.b.LeaseList(ctx, v.Principal, broker.LeaseQuery{TaskID: page.ID, State: broker.LeaseLive, Limit: listRows, Look: listLook})
	if err != nil {
		return err
	}
	for _, l := range live.Leases {
		page.Live = append(page.Live, credential{l, v.now})
	}
	page.MoreLive = live.More
	drawn, err := tp.b.LeaseList(ctx, v.Principal, broker.LeaseQuery{TaskID: page.ID, Order: broker.LeaseOldest, Limit: drawnLeases, Look: drawnLeases + 1})
	if err != nil {
		return err
	}
	marks, err := tp.b.EntryList(ctx, v.Principal, broker.EntryQuery{TaskID: page.ID, Kinds: []string{"task.", "sandbox.", "request.", audit.TokenDenied}, Oldest: true, Limit: drawnMarks, Look: listLook})
	if err != nil {
		return err
	}
	page.Line = draw(page.Task, drawn.Leases, marks.Entries, v.now)
	page.Line.Cut = drawn.More || marks.More
	page.Entries, page.Pager, err = tp.audit.entryPage(c, v, q, at, at)
	if page.Address = at; q.Place.Writer == "" && len(page.Entries) > 0 && page.State != broker.TaskClosed {
		page.Tail = strings.Replace(at, "/tasks/"+page.ID, "/tasks/"+page.ID+"/tail", 1)
	}
	page.CSV, page.JSONL = "/audit.csv?task="+page.ID, "/audit.jsonl?task="+page.ID
	return err
}

// stopTask stops a task and revokes its credentials. It works while the
// LiveStore is unavailable.
func (tp *taskPages) stopTask(c echo.Context, v *visit) error {
	id, reason := c.Param("id"), strings.TrimSpace(c.Request().PostForm.Get("reason"))
	if reason == "" {
		return broker.E(broker.Invalid, "A reason is required: it is written to the audit log. Go back and fill it in.", nil)
	}
	if _, err := tp.b.StopTask(c.Request().Context(), v.Principal, id, reason, stopWait); err != nil {
		return err
	}
	return tp.visits.redirect(c, "/tasks/"+id)
}
