package console

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/transcript"
)

const (
	treeRows    = 100 // tasks below one that its page lists
	drawnLeases = 60  // credentials that a timeline draws
	drawnMarks  = 400 // entries that it draws
	stopWait    = 2 * time.Second
)

type taskPage struct {
	task
	Above, Below []task
	Reads        bool // who looks sees the record of it
	Listed       bool // who looks sees credentials
	Transcripts  transcriptsOf
	Stop         bool // and may stop it
	Resume       bool // and may let it mint again
	Live         []credential
	MoreLive     bool
	Line         timeline
	Shows        []show
	Entries      []audit.Entry
	Pager        pager
	CSV, JSONL   string
	Address      string
	Tail         string // where the newest of the list come from; "" = this page has not the newest
	Filter       map[string]string
}

// show is a checkbox: what of the record the list has.
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

// taskQuery reads what of the record of a task the list has.
func taskQuery(a *asked, id string) ([]show, broker.EntryQuery) {
	q, all := broker.EntryQuery{TaskID: id}, slices.Clone(shows)
	for i, sh := range all {
		if all[i].On = a.oneOf(sh.Name, "on") != ""; all[i].On {
			q.Kinds = append(q.Kinds, sh.kinds...)
		}
	}
	return all, q
}

// taskTimeline shows one task and its life.
func (s *Console) taskTimeline(c echo.Context, v *visit) error {
	a := readAsked(c)
	page := taskPage{}
	var q broker.EntryQuery
	page.Shows, q = taskQuery(a, c.Param("id"))
	after, before := a.cursor("after"), a.cursor("before")
	at := address("/tasks/"+q.TaskID, a.kept.Encode())
	if place, back := s.place(a, at, after, before); place != "" {
		q.Place, q.Back = entryPlace(place), back
	}
	if err := a.done(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := s.b.Task(ctx, v.Principal, q.TaskID)
	if err != nil {
		return err
	}
	page.task, page.Filter = task{t}, a.filter()
	page.Reads, page.Listed = v.Has(readers...), v.Has(credentialReaders...)
	page.Transcripts = s.transcriptsOf(v, "task="+t.ID, transcript.Filter{TaskID: t.ID})
	page.Stop = t.State != broker.TaskClosed && (v.Has(broker.RoleOperator) || v.Has(broker.RoleRunner) && t.Runner == v.ID)
	page.Resume = broker.MayResume(v.Principal, t)
	if err := s.relatives(c, v, &page); err != nil {
		return err
	}
	if page.Reads {
		if err := s.taskRecord(c, v, &page, q, at); err != nil {
			return err
		}
	}
	return s.draw(c, http.StatusOK, v, "task", frame{Title: "Task", Nav: "/tasks"}, page)
}

// relatives are the tasks that delegated to it, and those it delegated to.
func (s *Console) relatives(c echo.Context, v *visit, page *taskPage) error {
	ctx := c.Request().Context()
	if len(page.Ancestors) > 0 {
		above, err := s.b.Tasks(ctx, v.Principal, broker.TaskFilter{IDs: page.Ancestors})
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
	below, err := s.b.Tasks(ctx, v.Principal, broker.TaskFilter{Below: page.ID, Page: broker.Page{Limit: treeRows}})
	for _, t := range below {
		page.Below = append(page.Below, task{t})
	}
	return err
}

// taskRecord is what is on the record about a task: what lives, the drawing, the list.
func (s *Console) taskRecord(c echo.Context, v *visit, page *taskPage, q broker.EntryQuery, at string) error {
	ctx := c.Request().Context()
	live, err := s.b.LeaseList(ctx, v.Principal, broker.LeaseQuery{TaskID: page.ID, State: broker.LeaseLive, Limit: listRows, Look: listLook})
	if err != nil {
		return err
	}
	for _, l := range live.Leases {
		page.Live = append(page.Live, credential{l, v.now})
	}
	page.MoreLive = live.More
	drawn, err := s.b.LeaseList(ctx, v.Principal, broker.LeaseQuery{TaskID: page.ID, Order: broker.LeaseOldest, Limit: drawnLeases, Look: drawnLeases + 1})
	if err != nil {
		return err
	}
	marks, err := s.b.EntryList(ctx, v.Principal, broker.EntryQuery{TaskID: page.ID, Kinds: []string{"task.", "sandbox.", "request.", audit.TokenDenied}, Oldest: true, Limit: drawnMarks, Look: listLook})
	if err != nil {
		return err
	}
	page.Line = draw(page.Task, drawn.Leases, marks.Entries, v.now)
	page.Line.Cut = drawn.More || marks.More
	page.Entries, page.Pager, err = s.entryPage(c, v, q, at, at)
	if page.Address = at; q.Place.Writer == "" && len(page.Entries) > 0 && page.State != broker.TaskClosed {
		page.Tail = strings.Replace(at, "/tasks/"+page.ID, "/tasks/"+page.ID+"/tail", 1)
	}
	page.CSV, page.JSONL = "/audit.csv?task="+page.ID, "/audit.jsonl?task="+page.ID
	return err
}

// stopTask ends a task with everything it holds. It works although the ledger is gone.
func (s *Console) stopTask(c echo.Context, v *visit) error {
	id, reason := c.Param("id"), strings.TrimSpace(c.Request().PostForm.Get("reason"))
	if reason == "" {
		return broker.E(broker.Invalid, "Say why it is stopped: it goes on the record. Go back and fill in the reason.", nil)
	}
	if _, err := s.b.StopTask(c.Request().Context(), v.Principal, id, reason, stopWait); err != nil {
		return err
	}
	return s.redirect(c, "/tasks/"+id)
}
