package revocation

import (
	"context"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
)

const (
	stopPage   = 200 // tasks of one reading
	stopAtOnce = 8
)

// StopTime is the time in which StopTasksOf begins to stop tasks.
const StopTime = 30 * time.Second

// StopTasksOf stops every open or paused task of an owner, for an operator. Each task ends as by
// StopTask, with its own audit entry; the failure of one does not keep the others from ending.
// More is set if StopTime was too short for all of them: repeat the call.
func (rv *Revocations) StopTasksOf(ctx context.Context, who broker.Principal, owner, reason string) (broker.OwnerStop, error) {
	if err := broker.Allow(who, broker.Doubtful, broker.RoleOperator); err != nil {
		return broker.OwnerStop{}, err
	}
	if owner == "" || utf8.RuneCountInString(owner) > 500 || !jose.Plain(owner) {
		return broker.OwnerStop{}, broker.E(broker.Invalid, "owner must be 1 to 500 printable characters.", nil)
	}
	if err := checkReason(reason); err != nil {
		return broker.OwnerStop{}, err
	}
	begin, cancel := context.WithTimeout(ctx, StopTime)
	defer cancel()
	out := broker.OwnerStop{Owner: owner, Tasks: []broker.StoppedTask{}, More: true}
	for after := ""; out.More && begin.Err() == nil; {
		open, err := rv.store.Tasks(ctx, broker.TaskFilter{Owner: owner, Open: true, Page: broker.Page{After: after, Limit: stopPage}})
		if err != nil && after == "" {
			return broker.OwnerStop{}, &broker.Error{Kind: broker.Unavailable, Cause: err, RetryAfter: 2 * time.Second,
				Public: "The tasks of the owner cannot be listed, because the database does not answer. Stop each task by its id, which does not need the database, or repeat the call."}
		}
		if err != nil {
			return out, nil // with the outcome of the tasks before
		}
		done := rv.stopAll(ctx, begin, who, open, reason)
		out.Tasks = append(out.Tasks, done...)
		if out.More = len(done) < len(open) || len(open) == stopPage; len(done) > 0 {
			after = done[len(done)-1].ID
		}
	}
	return out, nil
}

// stopAll stops tasks in their order until begin ends, and returns the outcome of those that it reached.
func (rv *Revocations) stopAll(ctx, begin context.Context, who broker.Principal, tasks []broker.Task, reason string) []broker.StoppedTask {
	out := make([]broker.StoppedTask, len(tasks))
	n := 0
	var g errgroup.Group
	g.SetLimit(stopAtOnce)
	for i, t := range tasks {
		if begin.Err() != nil {
			break
		}
		n++
		g.Go(func() error {
			out[i] = rv.stopOneOf(ctx, who, t, reason)
			return nil
		})
	}
	_ = g.Wait()
	return out[:n]
}

// stopOneOf stops one of several tasks and reports the outcome. If the end could not be recorded
// everywhere yet, this ebb refuses the task's tokens and keeps trying.
func (rv *Revocations) stopOneOf(ctx context.Context, who broker.Principal, t broker.Task, reason string) broker.StoppedTask {
	out := broker.StoppedTask{ID: t.ID, Name: t.Name}
	c, err := rv.StopTask(ctx, who, t.ID, reason, 0)
	if err != nil {
		out.Error = broker.AsError(err).Public
		return out
	}
	out.Stopped, out.Revoked, out.Withdrawn, out.PendingRevocations = true, c.Revoked, c.Withdrawn, c.PendingRevocations
	return out
}

func checkReason(reason string) error {
	if reason == "" || utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return broker.E(broker.Invalid, "reason must be 1 to 500 printable characters.", nil)
	}
	return nil
}
