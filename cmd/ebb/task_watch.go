package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// watchedTasks is the number of open tasks that ebb task watch follows.
const watchedTasks = 1000

func (c taskCommands) taskWatch() *cobra.Command {
	var f client.TaskFilter
	cmd := &cobra.Command{
		Use: "watch", Short: "Print tasks as they open, pause, resume and end, until interrupted", Args: cobra.NoArgs,
		Long: `Print the open tasks, at most the newest 1000, then each task whose state changes: it is
opened, paused, resumed or closed. The command ends when it is interrupted, with exit
code 0. With -o json each line is one task.`,
	}
	filterFlags(cmd, &f)
	every := everyFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		w := taskWatch{taskCommands: c, tasks: o.Tasks, filter: f}
		return c.watch(cmd.Context(), *every, w.poll)
	})
	return c.output(c.remote(cmd))
}

// taskWatch prints tasks whose state has changed.
type taskWatch struct {
	taskCommands
	tasks  *client.TasksService
	filter client.TaskFilter
	seen   map[string]wire.TaskState // tasks that have not ended; nil before the first query
	newest string                    // id of the newest task
}

// poll reads the tasks that were opened since the last query, also those that
// have ended already, and the open ones. A task that is no longer open is read
// by its id.
func (w *taskWatch) poll(ctx context.Context) error {
	first := w.seen == nil
	fresh, err := w.fresh(ctx)
	if err != nil {
		return err
	}
	f := w.filter
	f.Open = true
	open, err := pages(watchedTasks, func(p client.Page) (wire.List[wire.Task], error) {
		f.Page = p
		return w.tasks.List(ctx, f)
	})
	if err != nil {
		return err
	}
	slices.Reverse(open)
	seen := map[string]wire.TaskState{}
	for _, t := range open {
		seen[t.ID] = t.State
	}
	changed := open
	if !first {
		for _, t := range fresh {
			if _, is := seen[t.ID]; !is {
				changed = append(changed, t)
			}
		}
		for id := range w.seen {
			if _, is := seen[id]; is {
				continue
			}
			t, err := w.tasks.Get(ctx, id)
			if err != nil {
				return err
			}
			if t.State == wire.TaskClosed {
				changed = append(changed, t)
			}
		}
	}
	for _, t := range changed {
		if state, known := w.seen[t.ID]; known && state == t.State {
			continue
		}
		if err := w.print(t); err != nil {
			return err
		}
	}
	w.seen = seen
	return nil
}

// fresh returns the tasks after the newest known one, and none at the first call.
func (w *taskWatch) fresh(ctx context.Context) ([]wire.Task, error) {
	f := w.filter
	f.Page = client.Page{After: w.newest, Limit: watchedTasks}
	if w.newest == "" {
		f.Page = client.Page{Limit: 1, Desc: true}
	}
	l, err := w.tasks.List(ctx, f)
	for _, t := range l.Items {
		w.newest = max(w.newest, t.ID)
	}
	return l.Items, err
}

func (w *taskWatch) print(t wire.Task) error {
	if w.format == out.JSON {
		return out.Lines(w.stdout, t)
	}
	at, why := t.OpenedAt, t.Reason
	if t.State == wire.TaskClosed {
		at, why = t.ClosedAt, string(t.Cause)+" "+t.Reason
	}
	return out.Row(w.stdout, w.format, out.Time(at), string(t.State), t.ID, t.Name, t.Owner, why)
}
