package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
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

// used describes the use of one credential. For one that was delivered as a
// token ebb knows only the SSH connections through egress.
func used(l wire.Lease, u uses, err error) string {
	n, handedOut := u.of[l.ID], l.Delivery == wire.DeliveryToken
	switch {
	case err != nil, handedOut && n == nil:
		return ""
	case handedOut:
		return "  " + n.line("SSH connection(s)")
	}
	return "  " + n.line("request(s)")
}
