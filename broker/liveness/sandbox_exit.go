package liveness

import (
	"context"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// EndGraces announces that this process will accept no more connections: from now on a control
// connection that breaks, or is in its grace period, has no effect. Watches by attestors
// continue until Run ends. Call it before the listener is closed.
func (sw *SandboxWatch) EndGraces() { sw.background.Shut() }

// exited takes the configured action after a sandbox exit, and repeats it until it succeeds or
// the task is closed, so that a store that is down does not keep the task alive. When ctx ends
// it tries once more.
func (sw *SandboxWatch) exited(ctx context.Context, t broker.Task, d attest.Exit) {
	now := sw.clock.Now()
	if d.At.IsZero() || d.At.After(now) {
		d.At = now
	}
	sw.m.Exits.WithLabelValues(t.Sandbox.Attestor, d.How).Inc()
	sw.m.ExitDelay.WithLabelValues(t.Sandbox.Attestor).Observe(now.Sub(d.At).Seconds())
	sw.log.Note(ctx, sw.log.TaskEntry(audit.SandboxExited, kernel.Self, t.ID, map[string]any{"sandbox": t.Sandbox.ID, "how": d.How, "at": d.At}))
	sw.action(ctx, t, sw.liveness[t.Sandbox.Attestor].OnSandboxExit, broker.CauseExited, d.How)
}

func (sw *SandboxWatch) action(ctx context.Context, t broker.Task, what broker.Action, cause broker.Cause, why string) {
	if what == broker.ActionNothing { // a control connection of an attestor whose watches are off
		return
	}
	for wait, more := time.Second, true; ; wait = min(2*wait, time.Minute) {
		done, err := true, error(nil)
		if what == broker.ActionPause {
			done, err = sw.pauseExited(ctx, t.ID, why)
		} else {
			_, err = sw.revoker.Close(ctx, t.ID, broker.TaskMove{Cause: cause, By: kernel.Self, Reason: why})
		}
		if done && err == nil || err != nil && broker.AsError(err).Kind == broker.NotFound {
			return
		}
		if err != nil {
			sw.logger.ErrorContext(ctx, "the action after a sandbox exit failed; trying again", "task_id", t.ID, "error", err)
		}
		if !more {
			return
		}
		more = kernel.Sleep(ctx, wait)
	}
}

// pauseExited pauses a task after a sandbox exit. It leaves a pause by a person or runner
// untouched and is tried again when that pause ends.
func (sw *SandboxWatch) pauseExited(ctx context.Context, taskID, why string) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	t, err := sw.tasks.TaskByID(ctx, taskID)
	if err != nil || t.State != broker.TaskOpen {
		return t.State == broker.TaskClosed || t.PausedBy == kernel.Self, err
	}
	err = sw.control.SetPaused(ctx, broker.Principal{ID: kernel.Self, Roles: []broker.Role{broker.RoleRunner}}, t, broker.TaskMove{State: broker.TaskPaused, Reason: why})
	return err == nil, err
}
