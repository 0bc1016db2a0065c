package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/stdio"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// endPatience is how long `ebb run` tries to complete its task. After that the
// task ends when its heartbeat is missed.
const endPatience = 30 * time.Second

// heartbeat is the time after which ebb ends the task without a heartbeat.
func heartbeat(task wire.Task) time.Duration { return time.Duration(task.Heartbeat) * time.Second }

// beat sends heartbeats until ctx is done or ebb reports that the task has
// ended.
func (c runReport) beat(ctx context.Context, o *client.Operator, task wire.Task, over chan<- struct{}) {
	t := time.NewTicker(heartbeat(task) / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := o.Tasks.Heartbeat(ctx, task.ID)
		switch {
		case err == nil && now.State == wire.TaskClosed, client.IsKind(err, wire.KindConflict), client.IsKind(err, wire.KindNotFound):
			c.sayf("ebb: the task has ended; stopping CMD\n")
			close(over)
			return
		case err != nil && ctx.Err() == nil:
			c.sayf("ebb: sending a heartbeat failed: %s\n", explain(err))
		}
	}
}

// complete completes the task, and tries again while ebb is unavailable.
func (c runReport) complete(ctx context.Context, o *client.Operator, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for wait := 200 * time.Millisecond; ; wait *= 2 {
		done, err := o.Tasks.CompleteWithin(ctx, id, broker.DefaultWait) // waits, so that the summary has the outcome of each credential
		if err == nil {
			c.sayCompletion(ctx, o, done)
			return nil
		}
		if exitOf(err) != exitUnavailable {
			return fmt.Errorf("complete the task %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fail("the task "+out.Line(id)+" could not be completed: ebb is not available", "the task ends when its heartbeat is missed; `ebb task complete "+out.Line(id)+"` ends it sooner")
		case <-time.After(wait):
		}
	}
}

// shownCredentials is the maximum number of credentials listed at the end of a
// run.
const shownCredentials = 10

// sayCompletion prints the task's credentials, their use and their state.
func (c runReport) sayCompletion(ctx context.Context, o *client.Operator, done wire.Completion) {
	c.sayf("ebb: task %s ended: %d credential(s) revoked, %d had expired\n", out.Line(done.Task.ID), done.Revoked, done.AlreadyExpired)
	u, err := c.usesOf(ctx, o, done)
	for i, l := range done.Credentials {
		if i == shownCredentials {
			c.sayf("ebb:   and more: `ebb leases list --task %s`\n", out.Line(done.Task.ID))
			break
		}
		c.sayf("ebb:   %s  %s  %s%s\n", out.Line(l.ID), out.Line(l.Scopes), l.State, used(l, u, err))
	}
	if err != nil {
		c.sayf("ebb:   reading the use of the credentials failed: %s\n", explain(err))
	} else {
		c.sayUses(u)
	}
	if done.PendingRevocations > 0 {
		c.sayf("ebb: %d revocation(s) at providers are pending; ebb continues to try\n", done.PendingRevocations)
	}
}

// watch runs the command to its end and forwards signals to it. When the task
// has ended it sends SIGTERM, because the command's credentials no longer work,
// and kills the command after grace.
func (c runCommand) watch(in *sandboxed, over <-chan struct{}, grace time.Duration) error {
	signals := make(chan os.Signal, 16)
	// SIGPIPE is not forwarded: when a reader is gone the command's own stream is
	// closed.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGPIPE)
	defer signal.Stop(signals)
	closeStreams, err := in.openStreams()
	if err != nil {
		return fail(err.Error(), "give CMD an input that is not a terminal, such as </dev/null")
	}
	defer closeStreams()
	running, err := in.kind.Start(in.spec)
	if err != nil {
		return in.failure(err)
	}
	if in.streams != nil {
		if err := in.streams.Join(); err != nil {
			running.Kill()
		}
	}
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		code, err := running.Wait()
		ended <- end{code, err}
	}()
	var patience <-chan time.Time
	for {
		select {
		case s := <-signals:
			in.pass(running, s)
		case <-over:
			over = nil
			_ = running.Signal(syscall.SIGTERM)
			patience = time.After(grace)
		case <-patience:
			c.sayf("ebb: CMD did not end within %s and is killed\n", grace)
			running.Kill()
		case e := <-ended:
			c.status = exit(e.code)
			return in.failure(e.err)
		}
	}
}

// pass forwards a signal. Keys of the user's terminal are interpreted by the
// terminal of the sandbox.
func (b *sandboxed) pass(running sandbox.Running, s os.Signal) {
	switch {
	case s == syscall.SIGPIPE:
		return
	case s == syscall.SIGWINCH:
		if b.streams != nil {
			b.streams.Resize()
		}
		return
	case b.plain && (s == os.Interrupt || s == syscall.SIGQUIT) && b.spec.Stdin != nil && stdio.IsTerminal(b.spec.Stdin):
		return // a plain child is in the same foreground process group and has received the signal
	}
	_ = running.Signal(s) // the command may have ended
}

// openStreams creates streams for a sandbox.
func (b *sandboxed) openStreams() (closing func(), err error) {
	if b.plain {
		return func() {}, nil
	}
	var owner *stdio.Owner
	if u := b.spec.User; u != nil {
		owner = &stdio.Owner{UID: int(u.UID), GID: int(u.GID)}
	}
	if b.streams, err = stdio.Open(b.spec.Stdin, b.spec.Stdout, b.spec.Stderr, owner); err != nil {
		return nil, err
	}
	b.spec.Stdin, b.spec.Stdout, b.spec.Stderr, b.spec.TTY = b.streams.Stdin, b.streams.Stdout, b.streams.Stderr, b.streams.TTY
	if b.spec.Stderr != nil {
		b.spec.Env = append(b.spec.Env, "EBB_RUN_STDERR="+fileID(b.spec.Stderr))
	}
	return b.streams.Close, nil
}

// file returns stream as a file that a process can inherit, nil if it is none.
func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}
