package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

var completionColumns = []out.Column[broker.Completion]{
	{Name: "task", Cell: func(x broker.Completion) string { return x.Task.ID }},
	{Name: "state", Cell: func(x broker.Completion) string { return string(x.Task.State) }},
	{Name: "cause", Cell: func(x broker.Completion) string { return string(x.Task.Cause) }},
	{Name: "already_complete", Cell: func(x broker.Completion) string {
		if x.Already {
			return "yes"
		}
		return ""
	}},
	{Name: "revoked", Cell: func(x broker.Completion) string { return strconv.Itoa(x.Revoked) }},
	{Name: "already_expired", Cell: func(x broker.Completion) string { return strconv.Itoa(x.AlreadyExpired) }},
	{Name: "delegated_tasks", Cell: func(x broker.Completion) string { return strconv.Itoa(x.Delegated) }},
	{Name: "withdrawn_pending", Cell: func(x broker.Completion) string { return strconv.Itoa(x.Withdrawn) }},
	{Name: "owed", Cell: func(x broker.Completion) string { return strconv.Itoa(x.Owed) }},
}

func (c *cli) taskComplete() *cobra.Command {
	var wait time.Duration
	cmd := onOne(c, "complete TASK", "End a task: every credential of it is refused when this returns", completionColumns,
		func(o *client.Operator, ctx context.Context, id string) (broker.Completion, error) {
			return o.CompleteWithin(ctx, id, wait)
		})
	cmd.Long = `End a task. When this returns, every credential of it is refused by ebb. Those of
third parties are taken back there meanwhile; "owed" is how many of them are not
yet known to be dead. With --wait it waits for that. The answer as JSON holds the
signed receipt.`
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait for third parties: for 10s, or as --wait=30s says, at most 60s")
	cmd.Flags().Lookup("wait").NoOptDefVal = broker.DefaultWait.String()
	return cmd
}

// taskTaint is not onOne: it names what was read after the task.
func (c *cli) taskTaint() *cobra.Command {
	cmd := &cobra.Command{
		Use: "taint TASK SOURCE...", Short: "Report what a task has read that others can write, such as public-issue-comments",
		Long: "Report what a task has read that others can write, such as public-issue-comments.\nPolicies and approvers see it. Nothing takes it away again.",
		Args: cobra.MinimumNArgs(2),
	}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		t, err := o.Taint(cmd.Context(), args[0], args[1:]...)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, taskDetails, t)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) taskTicket() *cobra.Command {
	columns := []out.Column[opened]{
		{Name: "ticket", Cell: func(o opened) string { return o.Ticket }},
		{Name: "ticket_expires_at", Cell: func(o opened) string { return out.Time(o.TicketExpiresAt) }},
	}
	return onOne(c, "ticket TASK", "Print another single-use enrolment ticket", columns, func(o *client.Operator, ctx context.Context, id string) (opened, error) {
		tk, err := o.Ticket(ctx, id)
		if err != nil {
			return opened{}, err
		}
		return opened{Task: broker.Task{ID: id}, Ticket: tk.Ticket.Reveal(), TicketExpiresAt: tk.ExpiresAt}, nil
	})
}
