package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// runsDir holds, in the data directory, the directories of this user's runs, and by the ids of
// their tasks links to the sockets of those that lend.
const runsDir = "runs"

// taskForm is what an id of a task looks like, which becomes the name of a file.
var taskForm = regexp.MustCompile(`^tsk_[0-9a-f]{1,64}$`)

// lend has other runs of this user ask in the name of the task's sandbox, until serving is done.
// The key stays here: what holds a box's socket apart from its machine holds it apart from them.
func (c *cli) lend(serving context.Context, k keeper, in *boxed) error {
	if !taskForm.MatchString(k.taskID) {
		return nil
	}
	dir := filepath.Join(in.dir, "lent")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fail(err.Error(), dirAdvice(in.dir))
	}
	socket, link := filepath.Join(dir, "socket"), filepath.Join(c.dataDir(), runsDir, k.taskID)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fail(err.Error(), dirAdvice(in.dir))
	}
	// Without the link nobody joins, and the run goes on.
	if os.MkdirAll(filepath.Dir(link), 0o700) == nil && os.Symlink(socket, link) == nil {
		context.AfterFunc(serving, func() { _ = os.Remove(link) })
	}
	go func() { _ = ask.Serve(serving, l, ask.Config{Sandbox: k.sandbox, Prove: k.prove}) }()
	return nil
}

// borrow finds the run of this user that has opened a task.
func (c *cli) borrow(taskID string) (keeper, error) {
	link := filepath.Join(c.dataDir(), runsDir, taskID)
	gone := func(err error) error {
		return fail("the task "+out.Line(taskID)+" is not of an `ebb run` of this user on this machine that is still there: "+err.Error(),
			"join a task that `ebb run` has opened, as the same user and with the same data directory")
	}
	socket, err := os.Readlink(link)
	if err != nil {
		return keeper{}, gone(err)
	}
	dir, err := box.OpenSocketDir(socket, uint32(os.Geteuid()))
	if err != nil {
		return keeper{}, gone(err)
	}
	_ = dir.Close()
	if l, err := net.Dial("unix", socket); err != nil {
		_ = os.Remove(link) // of a runner that was killed
		return keeper{}, gone(err)
	} else {
		_ = l.Close()
	}
	a := ask.NewClient(socket)
	return keeper{taskID: taskID, sandbox: a, prove: func(method, url, token string) (string, error) {
		return a.Prove(context.Background(), method, url, provider.NewSecret(token))
	}}, nil
}

// joinable refuses what is said of a task that is somebody else's to open.
func (flags *runFlags) joinable() error {
	if !taskForm.MatchString(flags.join) {
		return usage("--join wants the id of a task", "`ebb task list --open` has them")
	}
	if flags.kind == "none" {
		return usage("--join is for a box", "leave out --box none: the key of the task's sandbox stays with the run that opened it")
	}
	var untouched taskFlags
	untouched.add(&cobra.Command{}, runHeartbeat)
	if !reflect.DeepEqual(flags.task, untouched) {
		return usage("--join takes nothing of what describes a task", "leave out --scope, --ttl, --name and the like: the task is as it was opened")
	}
	return nil
}

// runJoined runs the command in another box of a task that is open. Its end is the box's, and not
// the task's.
func (c *cli) runJoined(ctx context.Context, flags *runFlags, in *boxed) (err error) {
	o, err := c.operator(operatorKey)
	if err != nil {
		return err
	}
	task, err := o.Task(ctx, flags.join)
	if err != nil {
		return err
	}
	if task.State == broker.TaskClosed {
		return fail("the task "+out.Line(task.ID)+" is over", "open another: leave out --join")
	}
	k, err := c.borrow(task.ID)
	if err != nil {
		return err
	}
	remove, err := ownDir(in, c.runPlaces())
	if err != nil {
		return err
	}
	defer remove()
	defer in.close()
	if err := in.saveGuard(); err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	in.joined = true
	defer func() { err = errors.Join(err, c.leave(serving, o, in)) }()
	if err := c.equip(ctx, serving, o, in, k); err != nil {
		return err
	}
	if err := c.confine(in); err != nil {
		return err
	}
	over := make(chan struct{})
	go c.lookout(serving, o, task, over)
	return c.watch(in, over, flags.grace)
}

// leave closes the box at ebb: what was given to it opens nothing there any more.
func (c *cli) leave(ctx context.Context, o *client.Operator, in *boxed) error {
	if in.out == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	if _, err := o.CloseBox(ctx, *in.out); err != nil && !client.IsKind(err, broker.NotFound) && !client.IsKind(err, broker.Conflict) {
		return fmt.Errorf("the box could not be closed: %w", err)
	}
	return nil
}

// lookout watches a task that somebody else keeps alive, until it is over or ctx is done.
func (c *cli) lookout(ctx context.Context, o *client.Operator, task broker.Task, over chan<- struct{}) {
	t := time.NewTicker(max(task.Heartbeat.Duration()/3, time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := o.Task(ctx, task.ID)
		if isOver(now, err) {
			c.sayf("ebb: the task was ended; CMD is told to stop\n")
			close(over)
			return
		}
	}
}
