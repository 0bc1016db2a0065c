package main

import (
	"context"
	"fmt"
	"time"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
	"ebb/scopes/policy"
	"ebb/web/client"
)

// endPatience is how long `ebb run` tries to complete its task. Afterwards the
// missing heartbeat ends it.
const endPatience = 30 * time.Second

// beat says that the runner is alive, until ctx is done or ebb says that the task is over.
func (c *cli) beat(ctx context.Context, o *client.Operator, task broker.Task, over chan<- struct{}) {
	t := time.NewTicker(task.Heartbeat.Duration() / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := o.Heartbeat(ctx, task.ID)
		switch {
		case err == nil && now.State == broker.TaskClosed, client.IsKind(err, broker.Conflict), client.IsKind(err, broker.NotFound):
			c.sayf("ebb: the task was ended; CMD is told to stop\n")
			close(over)
			return
		case err != nil && ctx.Err() == nil:
			c.sayf("ebb: a heartbeat did not arrive: %s\n", explain(err))
		}
	}
}

// complete ends the task, trying again while ebb is out of reach.
func (c *cli) complete(ctx context.Context, o *client.Operator, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for wait := 200 * time.Millisecond; ; wait *= 2 {
		done, err := o.CompleteWithin(ctx, id, broker.DefaultWait) // the summary says what became of each credential
		if err == nil {
			c.sayCompletion(ctx, o, done)
			return nil
		}
		if exitOf(err) != exitUnavailable {
			return fmt.Errorf("the task %s could not be completed: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fail("the task "+out.Line(id)+" could not be completed: ebb is out of reach", "it ends by itself when its heartbeat is missed; `ebb task complete "+out.Line(id)+"` ends it sooner")
		case <-time.After(wait):
		}
	}
}

// shownCredentials is how many of a task's credentials are listed at its end.
const shownCredentials = 10

// sayCompletion says what was issued, what was used of it and what became of it.
func (c *cli) sayCompletion(ctx context.Context, o *client.Operator, done broker.Completion) {
	c.sayf("ebb: task %s ended: %d credential(s) revoked, %d had expired\n", out.Line(done.Task.ID), done.Revoked, done.AlreadyExpired)
	u, err := c.usesOf(ctx, o, done)
	for i, l := range done.Credentials {
		if i == shownCredentials {
			c.sayf("ebb:   and more: `ebb leases list --task %s`\n", out.Line(done.Task.ID))
			break
		}
		c.sayf("ebb:   %s  %s  %s%s\n", out.Line(l.ID), out.Line(l.Scopes.String()), l.State, used(l, u, err))
	}
	if err != nil {
		c.sayf("ebb:   what was used of them could not be read: %s\n", explain(err))
	} else {
		c.sayUses(u)
	}
	if done.Owed > 0 {
		c.sayf("ebb: %d of them are not yet known to be dead at their providers; ebb goes on with them\n", done.Owed)
	}
}

// used is what is said of one credential. Of what was handed out nobody here knows its uses, but
// for the SSH connections that egress carried by it.
func used(l broker.Lease, u uses, err error) string {
	n, handedOut := u.of[l.ID], l.Delivery == policy.DeliveryToken
	switch {
	case err != nil, handedOut && n == nil:
		return ""
	case handedOut:
		return "  " + n.line("SSH connection(s)")
	}
	return "  " + n.line("request(s)")
}
