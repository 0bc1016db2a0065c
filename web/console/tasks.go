package console

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"ebb/broker"
)

// taskReaders is who sees tasks: approvers too, who decide what happens in them.
var taskReaders = everyone

// taskLook is how many tasks one page looks through for a kind, which no index finds.
const taskLook = 1000

type tasksPage struct {
	Filter  map[string]string
	States  []option
	Rows    []task
	Address string
	Pager   pager
}

var taskStates = []option{{"open", "open"}, {"paused", "paused"}, {"closed", "over"}}

// task is a task as it is drawn.
type task struct{ broker.Task }

// Word is the state, and Tone its part of the sheet.
func (t task) Word() string {
	if t.State == broker.TaskClosed {
		return "over"
	}
	return string(t.State)
}

// Tone is the part of the sheet that goes with the word.
func (t task) Tone() string {
	return map[broker.TaskState]string{broker.TaskOpen: "good", broker.TaskPaused: "warn"}[t.State]
}

// Why is why it is over.
func (t task) Why() string {
	return map[broker.Cause]string{
		broker.CauseCompleted: "completed", broker.CauseStopped: "stopped", broker.CauseDeadline: "its deadline passed", broker.CauseHeartbeat: "its runner went silent", broker.CauseExited: "its sandbox is gone",
		broker.CauseLapsed: "its sandbox showed no fresh evidence in time", broker.CauseSuspicious: "an approver denied a request as suspicious", broker.CauseParent: "the task above it ended",
		broker.CauseDenials: "ebb paused it: too much of it was denied", broker.CauseAsks: "ebb paused it: it asked people too often",
	}[t.Cause]
}

// tasks lists them, newest first.
func (s *Console) tasks(c echo.Context, v *visit) error {
	a := readAsked(c)
	f := broker.TaskFilter{State: broker.TaskState(a.oneOf("state", values(taskStates)...)), Owner: a.text("owner")}
	kind := a.text("kind")
	after, before := a.cursor("after"), a.cursor("before")
	list := "tasks?" + a.kept.Encode()
	place, back := s.place(a, list, after, before)
	if err := a.done(); err != nil {
		return err
	}
	f.Open = f.State == broker.TaskOpen || f.State == broker.TaskPaused // which have an index
	f.Page = broker.Page{After: place, Desc: !back, Limit: listRows + 1}
	if kind != "" {
		f.Page.Limit = taskLook
	}
	found, err := s.b.Tasks(c.Request().Context(), v.Principal, f)
	if err != nil {
		return err
	}
	page := tasksPage{Filter: a.filter(), States: taskStates, Address: address("/tasks", a.kept.Encode())}
	in := paging{list: list, at: page.Address, placed: place != "", back: back, more: len(found) == f.Page.Limit}
	for _, t := range found {
		if kind != "" && t.Kind != kind {
			in.stop = t.ID
			continue
		}
		if len(page.Rows) == listRows {
			in.more = true
			break
		}
		page.Rows, in.stop = append(page.Rows, task{t}), t.ID
	}
	short := in.more && len(page.Rows) < listRows
	if back {
		slices.Reverse(page.Rows)
	}
	if n := len(page.Rows); n > 0 {
		in.first, in.last = page.Rows[0].ID, page.Rows[n-1].ID
	}
	page.Pager = s.pagerOf(in)
	page.Pager.Short, page.Pager.Look = short, taskLook
	return s.draw(c, http.StatusOK, v, "tasks", frame{Title: "Tasks", Nav: "/tasks"}, page)
}
