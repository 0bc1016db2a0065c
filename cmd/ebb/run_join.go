package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// runsDir in the data directory contains the directories of this user's runs,
// and links to the sockets of lending runs, named by their task IDs.
const runsDir = "runs"

// taskForm matches a task ID, which becomes a file name.
var taskForm = lazyregexp.New(`^tsk_[0-9a-f]{1,64}$`)

// lend lets other runs of this user make requests in the name of the task's
// sandbox, until serving is done. The key stays in this process, and other runs
// reach only the socket.
func (c runCommand) lend(serving context.Context, k keeper, in *sandboxed) error {
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
	// Without the link other runs cannot join, but this run continues.
	if os.MkdirAll(filepath.Dir(link), 0o700) == nil && os.Symlink(socket, link) == nil {
		context.AfterFunc(serving, func() { _ = os.Remove(link) })
	}
	go func() { _ = ask.Serve(serving, l, ask.Config{Sandbox: k.sandbox, Prove: k.prove}) }()
	return nil
}

// borrow finds the run of this user that opened a task.
func (c runCommand) borrow(taskID string) (keeper, error) {
	link := filepath.Join(c.dataDir(), runsDir, taskID)
	gone := func(err error) error {
		return fail("the task "+out.Line(taskID)+" does not belong to an active `ebb run` of this user on this machine: "+err.Error(),
			"join a task that `ebb run` opened as the same user and with the same data directory")
	}
	socket, err := os.Readlink(link)
	if err != nil {
		return keeper{}, gone(err)
	}
	dir, err := sandbox.OpenSocketDir(socket, uint32(os.Geteuid()))
	if err != nil {
		return keeper{}, gone(err)
	}
	_ = dir.Close()
	if l, err := net.Dial("unix", socket); err != nil {
		_ = os.Remove(link) // left by a run that was killed
		return keeper{}, gone(err)
	} else {
		_ = l.Close()
	}
	a := ask.NewClient(socket)
	return keeper{taskID: taskID, sandbox: a, prove: func(method, url, token string) (string, error) {
		return a.Prove(context.Background(), method, url, secret.New(token))
	}}, nil
}

// joinable refuses flags that describe a task, because the joined task is
// already open.
func (flags *runFlags) joinable() error {
	if !taskForm.MatchString(flags.join) {
		return usage("--join needs a task ID", "list task IDs with `ebb task list --open`")
	}
	if flags.kind == "none" {
		return usage("--join needs a sandbox", "remove --sandbox none: the key of the task's sandbox stays with the run that opened it")
	}
	var untouched taskFlags
	untouched.add(&cobra.Command{}, runHeartbeat)
	if !reflect.DeepEqual(flags.task, untouched) {
		return usage("--join excludes the flags that describe a task", "remove --scope, --ttl, --name and similar flags: the task is already open")
	}
	return nil
}

// runJoined runs the command in another sandbox of an open task. When the
// command ends, the sandbox ends and the task stays open.
func (c runCommand) runJoined(ctx context.Context, flags *runFlags, in *sandboxed) (err error) {
	o, err := c.operator(operatorKey)
	if err != nil {
		return err
	}
	task, err := o.Tasks.Get(ctx, flags.join)
	if err != nil {
		return err
	}
	if task.State == wire.TaskClosed {
		return fail("the task "+out.Line(task.ID)+" has ended", "remove --join to open another task")
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

// leave closes the egress endpoint at ebb, so that the placeholders of this
// sandbox no longer work.
func (c runCommand) leave(ctx context.Context, o *client.Operator, in *sandboxed) error {
	if in.out == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	if _, err := o.Endpoints.Close(ctx, *in.out); err != nil && !client.IsKind(err, wire.KindNotFound) && !client.IsKind(err, wire.KindConflict) {
		return fmt.Errorf("close the egress endpoint: %w", err)
	}
	return nil
}

// lookout polls a task that another run keeps alive, until it has ended or ctx
// is done.
func (c runCommand) lookout(ctx context.Context, o *client.Operator, task wire.Task, over chan<- struct{}) {
	t := time.NewTicker(max(heartbeat(task)/3, time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := o.Tasks.Get(ctx, task.ID)
		if isOver(now, err) {
			c.sayf("ebb: the task has ended; stopping CMD\n")
			close(over)
			return
		}
	}
}
