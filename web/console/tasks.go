package console

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
)

// taskPages lists tasks and shows the timeline of one.
type taskPages struct {
	b *core.Broker

	audit    *auditPages
	pages    *pages
	requests *requestPages
	visits   *visits
}

// taskReaders may see tasks. Approvers are among them, because they decide
// requests of tasks.
var taskReaders = everyone

// taskLook limits the tasks that one page scans for a kind, because no index
// covers kinds.
const taskLook = 1000

type tasksPage struct {
	Filter  map[string]string
	States  []option
	Rows    []task
	Address string
	Pager   pager
}

var taskStates = []option{{"open", "open"}, {"paused", "paused"}, {"closed", "closed"}}

// task is a task with the texts that pages show for it.
type task struct{ broker.Task }

// Word returns the visible name of the state.
func (t task) Word() string {
	if t.State == broker.TaskClosed {
		return "closed"
	}
	return string(t.State)
}

// Tone returns the CSS class of the state.
func (t task) Tone() string {
	return map[broker.TaskState]string{broker.TaskOpen: "good", broker.TaskPaused: "warn"}[t.State]
}

// Why returns why the task was closed or paused.
func (t task) Why() string {
	return map[broker.Cause]string{
		broker.CauseCompleted: "completed", broker.CauseStopped: "stopped", broker.CauseDeadline: "its deadline passed", broker.CauseHeartbeat: "its runner sent no heartbeat in time", broker.CauseExited: "its sandbox exited",
		broker.CauseMissedAttestation: "its sandbox did not re-attest before the deadline", broker.CauseSuspicious: "an approver denied a request as suspicious", broker.CauseParent: "its parent task ended",
		broker.CauseDenials: "ebb paused it: too many of its requests were denied", broker.CauseAsks: "ebb paused it: it requested approval too often",
	}[t.Cause]
}

// tasks lists tasks, newest first.
func (tp *taskPages) tasks(c echo.Context, v *visit) error {
	a := readAsked(c)
	f := broker.TaskFilter{State: broker.TaskState(a.oneOf("state", values(taskStates)...)), Owner: a.text("owner")}
	kind := a.text("kind")
	after, before := a.cursor("after"), a.cursor("before")
	list := "tasks?" + a.kept.Encode()
	place, back := tp.pages.place(a, list, after, before)
	if err := a.done(); err != nil {
		return err
	}
	f.Open = f.State == broker.TaskOpen || f.State == broker.TaskPaused // open and paused tasks have an index
	f.Page = broker.Page{After: place, Desc: !back, Limit: listRows + 1}
	if kind != "" {
		f.Page.Limit = taskLook
	}
	found, err := tp.b.Tasks(c.Request().Context(), v.Principal, f)
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
	page.Pager = tp.pages.pagerOf(in)
	page.Pager.Short, page.Pager.Look = short, taskLook
	return tp.pages.draw(c, http.StatusOK, v, "tasks", frame{Title: "Tasks", Nav: "/tasks"}, page)
}

// taskRoutes are the routes of tasks.
func (tp *taskPages) taskRoutes() []route {
	return []route{
		tp.visits.page("/tasks", tp.tasks),
		tp.visits.page("/tasks/:id", tp.taskTimeline),
		tp.visits.page("/tasks/:id/tail", tp.audit.tailTask),
		tp.visits.form("/tasks/:id/stop", true, tp.stopTask),
		tp.visits.form("/tasks/:id/resume", false, tp.requests.resumeTask),
		tp.visits.page("/tasks/:id/receipt", tp.receipt),
	}
}
