package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

var stoppedColumns = []out.Column[wire.StoppedTask]{
	{Name: "task", Cell: func(s wire.StoppedTask) string { return s.ID }, Form: out.ID},
	{Name: "state", Cell: func(s wire.StoppedTask) string {
		if s.Stopped {
			return "stopped"
		}
		return "NOT YET"
	}},
	{Name: "name", Cell: func(s wire.StoppedTask) string { return s.Name }},
	{Name: "revoked", Cell: func(s wire.StoppedTask) string { return strconv.Itoa(s.Revoked) }},
	{Name: "withdrawn_pending", Cell: func(s wire.StoppedTask) string { return strconv.Itoa(s.Withdrawn) }},
	{Name: "pending_revocations", Cell: func(s wire.StoppedTask) string { return strconv.Itoa(s.PendingRevocations) }},
	{Name: "error", Cell: func(s wire.StoppedTask) string { return s.Error }, Form: out.Remedy},
}

func (c taskCommands) taskStop() *cobra.Command {
	owner := ""
	cmd := onOneFor(c.cli, "stop [TASK]", "Stop a task, or with --owner every open task of a person, because of an incident", completionColumns,
		func(o *client.Operator) actionFor[wire.Completion] {
			return namedFor(c.taskIDs(o).change, o.Tasks.Stop)
		})
	cmd.Long = `Stop a task because of an incident. When the command returns, ebb refuses every
credential of it; those of third parties are revoked there in the background
("pending_revocations").

With --owner every open and paused task of a person is stopped, for operators. OWNER
must be written exactly as in ` + "`ebb task list`" + `. A task whose end could not be recorded
everywhere yet does not keep the others from ending; the exit code is 5 then.

--reason is required, because the owner of a task reads it in the audit log.`
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Flags().StringVar(&owner, "owner", "", "stop every open and paused task of this owner")
	one := cmd.RunE
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		switch {
		case owner == "" && len(args) == 0:
			return usage("no task is named", "name a task, or a person with --owner")
		case owner != "" && len(args) > 0:
			return usage("both a task and --owner are named", "name one of them")
		}
		reason, err := cmd.Flags().GetString("reason")
		if err != nil {
			return err
		}
		switch {
		case reason == "":
			return usage("--reason is required", "name the incident in a few words: the owner of a task reads it in the audit log")
		case owner == "":
			return one(cmd, args)
		}
		return c.stopOwner(cmd, owner, reason)
	})
	return cmd
}

// stopRepeatedly repeats a call while it leaves tasks open and stops some. It
// returns the last outcome of each task, also beside an error.
func stopRepeatedly(owner string, stop func() (wire.OwnerStop, error)) (wire.OwnerStop, error) {
	all := wire.OwnerStop{Owner: owner, Tasks: []wire.StoppedTask{}, More: true}
	at := map[string]int{} // places in all.Tasks: a task that could not be stopped is in the next response, too
	for stopped := 1; all.More && stopped > 0; {
		some, err := stop()
		if err != nil {
			return all, err
		}
		stopped = 0
		for _, t := range some.Tasks {
			if t.Stopped {
				stopped++
			}
			if i, again := at[t.ID]; again {
				all.Tasks[i] = t
				continue
			}
			at[t.ID] = len(all.Tasks)
			all.Tasks = append(all.Tasks, t)
		}
		all.More = some.More
	}
	return all, nil
}

// stopOwner stops every task of an owner, and prints the outcome of each. It also
// prints the outcomes before an error.
func (c taskCommands) stopOwner(cmd *cobra.Command, owner, reason string) error {
	o, err := c.operator(operatorKey)
	if err != nil {
		return err
	}
	all, err := stopRepeatedly(owner, func() (wire.OwnerStop, error) {
		return o.Tasks.StopOwner(cmd.Context(), owner, reason)
	})
	if err != nil && len(all.Tasks) == 0 {
		return err
	}
	if len(all.Tasks) == 0 && !all.More {
		return fail(fmt.Sprintf("no open task has the owner %q", owner), "write the owner exactly as in `ebb task list --open`")
	}
	if c.format == out.JSON {
		err = errors.Join(err, out.One(c.stdout, c.format, nil, all))
	} else {
		err = errors.Join(err, out.List(c.stdout, c.format, stoppedColumns, all.Tasks))
	}
	if err != nil {
		return err
	}
	open, pending := 0, 0
	for _, t := range all.Tasks {
		pending += t.PendingRevocations
		if !t.Stopped {
			open++
		}
	}
	c.sayf("ebb: %s of %s stopped; pending revocations at third parties: %d\n", out.Count(len(all.Tasks)-open, "task", "tasks"), out.Line(owner), pending)
	if open > 0 || all.More {
		var left []string
		if open > 0 {
			left = append(left, fmt.Sprintf("tasks whose end is not confirmed: %d", open))
		}
		if all.More {
			left = append(left, "ebb did not reach every task in time")
		}
		return &failure{Code: exitUnavailable, Text: strings.Join(left, "; "), Next: "run the command again; ebb keeps trying meanwhile"}
	}
	return nil
}
