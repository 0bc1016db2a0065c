package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

var completionColumns = []out.Column[wire.Completion]{
	{Name: "task", Cell: func(x wire.Completion) string { return x.Task.ID }},
	{Name: "state", Cell: func(x wire.Completion) string { return string(x.Task.State) }},
	{Name: "cause", Cell: func(x wire.Completion) string { return string(x.Task.Cause) }},
	{Name: "already_complete", Cell: func(x wire.Completion) string {
		if x.Already {
			return "yes"
		}
		return ""
	}},
	{Name: "revoked", Cell: func(x wire.Completion) string { return strconv.Itoa(x.Revoked) }},
	{Name: "already_expired", Cell: func(x wire.Completion) string { return strconv.Itoa(x.AlreadyExpired) }},
	{Name: "delegated_tasks", Cell: func(x wire.Completion) string { return strconv.Itoa(x.Delegated) }},
	{Name: "withdrawn_pending", Cell: func(x wire.Completion) string { return strconv.Itoa(x.Withdrawn) }},
	{Name: "pending_revocations", Cell: func(x wire.Completion) string { return strconv.Itoa(x.PendingRevocations) }},
}

func (c taskCommands) taskComplete() *cobra.Command {
	var wait time.Duration
	cmd := onOne(c.cli, "complete TASK", "Complete a task: every credential of it is refused when the command returns", completionColumns,
		func(o *client.Operator) action[wire.Completion] {
			return func(ctx context.Context, id string) (wire.Completion, error) {
				return o.Tasks.CompleteWithin(ctx, id, wait)
			}
		})
	cmd.Long = `Complete a task. When the command returns, ebb refuses every credential of the task.
Those of third parties are revoked there in the background; "pending_revocations" is the number of
pending revocations. With --wait the command waits for them. The JSON output contains
the signed receipt.`
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait for pending revocations: 10s, or the given time such as --wait=30s, at most 60s")
	cmd.Flags().Lookup("wait").NoOptDefVal = broker.DefaultWait.String()
	return cmd
}

// taskTaint does not use onOne, because it has further arguments.
func (c taskCommands) taskTaint() *cobra.Command {
	cmd := &cobra.Command{
		Use: "taint TASK SOURCE...", Short: "Report that a task has read untrusted sources, such as public-issue-comments",
		Long: "Report that a task has read untrusted sources, such as public-issue-comments, which\nthird parties can write. Policies and approvers see the taint. It cannot be removed.",
		Args: cobra.MinimumNArgs(2),
	}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		t, err := o.Tasks.Taint(cmd.Context(), args[0], args[1:]...)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, taskDetails, t)
	})
	return c.output(c.remote(cmd))
}

func (c taskCommands) taskTicket() *cobra.Command {
	columns := []out.Column[opened]{
		{Name: "ticket", Cell: func(o opened) string { return o.Ticket }},
		{Name: "ticket_expires_at", Cell: func(o opened) string { return out.Time(o.TicketExpiresAt) }},
	}
	return onOne(c.cli, "ticket TASK", "Print another single-use enrolment ticket", columns, func(o *client.Operator) action[opened] {
		return func(ctx context.Context, id string) (opened, error) {
			tk, err := o.Tasks.NewTicket(ctx, id)
			if err != nil {
				return opened{}, err
			}
			return opened{Task: wire.Task{ID: id}, Ticket: tk.Ticket.Reveal(), TicketExpiresAt: tk.ExpiresAt}, nil
		}
	})
}
