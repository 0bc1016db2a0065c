package tasks

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// taskLook limits the tasks that one page scans for a kind, because no index covers kinds.
const taskLook = 1000

type tasksPage struct {
	Form    *list.Query
	States  []shell.Option
	Rows    []task
	Views   list.ViewBar
	Address string
	Pager   list.Pager
}

var taskStates = []shell.Option{{Value: "open", Label: "open"}, {Value: "paused", Label: "paused"}, {Value: "closed", Label: "closed"}}

// task is a task with the texts that pages show for it.
type task struct{ broker.Task }

// Word returns the visible name of the state.
func (t task) Word() string { return string(t.State) }

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
func (ps *Pages) tasks(c echo.Context, v *session.Visit) error {
	a := list.ReadQuery(c)
	f := broker.TaskFilter{State: broker.TaskState(a.OneOf("state", shell.Values(taskStates)...)), Owner: a.Text("owner")}
	kind := a.Text("kind")
	after, before := a.Cursor("after"), a.Cursor("before")
	listKey := "tasks?" + a.Kept.Encode()
	place, back := ps.Cursors.Place(a, listKey, after, before)
	page := tasksPage{Form: a, States: taskStates, Views: ps.Views.Bar(c, v, "/tasks", a)}
	page.Address = page.Views.Address(a)
	if a.Unread() {
		return ps.Shell.Draw(c, http.StatusUnprocessableEntity, v, "tasks", shell.Frame{Title: "Tasks", Nav: "/tasks"}, page)
	}
	f.Open = f.State == broker.TaskOpen || f.State == broker.TaskPaused // open and paused tasks have an index
	f.Page = broker.Page{After: place, Desc: !back, Limit: list.Rows + 1}
	if kind != "" {
		f.Page.Limit = taskLook
	}
	found, err := ps.Broker.Tasks(c.Request().Context(), v.Principal, f)
	if err != nil {
		return err
	}
	in := list.Paging{List: listKey, At: page.Address, Placed: place != "", Back: back}
	shown, short := list.Collect(found, f.Page.Limit, func(t broker.Task) string { return t.ID }, &in, func(t broker.Task) bool { return kind == "" || t.Kind == kind })
	for _, t := range shown {
		page.Rows = append(page.Rows, task{t})
	}
	page.Pager = ps.Cursors.Pager(in)
	page.Pager.Short, page.Pager.Look = short, taskLook
	return ps.Shell.Draw(c, http.StatusOK, v, "tasks", shell.Frame{Title: "Tasks", Nav: "/tasks"}, page)
}
