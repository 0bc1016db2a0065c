package tasks

import (
	"context"
	"html/template"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	Reader
	StopTask(ctx context.Context, who broker.Principal, taskID string, reason string, wait time.Duration) (broker.Completion, error)
	ResumeTask(ctx context.Context, who broker.Principal, taskID string) (broker.Task, error)
	Receipt(ctx context.Context, who broker.Principal, taskID string) (r receipt.Receipt, jws string, err error)
}

// Reader reads tasks with their credentials and audit entries.
type Reader interface {
	Task(ctx context.Context, who broker.Principal, id string) (broker.Task, error)
	Tasks(ctx context.Context, who broker.Principal, f broker.TaskFilter) ([]broker.Task, error)
	LeaseList(ctx context.Context, who broker.Principal, q broker.LeaseQuery) (broker.LeaseSlice, error)
	EntryList(ctx context.Context, who broker.Principal, q broker.EntryQuery) (broker.EntrySlice, error)
}

// Pages serves the list of tasks, one task with its timeline, and sandboxes.
type Pages struct {
	Broker  Broker
	Shell   *shell.Shell
	Cursors *list.Cursors
	Entries *list.Entries
	Views   *list.Views
}

// Routes are the routes of tasks.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.Views.Page("/tasks", ps.tasks),
		ps.Shell.Page("/tasks/:id", ps.taskTimeline),
		ps.Shell.Watch("/tasks/:id/tail", ps.tailTask),
		ps.Shell.Form("/tasks/:id/stop", true, ps.stopTask),
		ps.Shell.Form("/tasks/:id/resume", false, ps.resumeTask),
		ps.Shell.Page("/tasks/:id/receipt", ps.receipt),
		ps.Shell.Page("/sandboxes/:id", ps.sandbox),
	}
}

// Funcs returns the functions that the templates of this area call.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"lineOf": func(v shell.View, t timeline) lineView { return lineView{v, t} },
	}
}
