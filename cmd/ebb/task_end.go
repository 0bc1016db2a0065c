package main

import (
	"context"
	"strconv"

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
	{Name: "withdrawn_requests", Cell: func(x broker.Completion) string { return strconv.Itoa(x.Withdrawn) }},
}

// What the client does to a task; reason may be "".
type (
	moveFunc = func(o *client.Operator, ctx context.Context, id, reason string) (broker.Task, error)
	endFunc  = func(o *client.Operator, ctx context.Context, id, reason string) (broker.Completion, error)
)

// taskMove is a command that changes a task and shows it.
func (c *cli) taskMove(verb, short string, reason bool, do moveFunc) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " TASK", Short: short, Args: cobra.ExactArgs(1)}
	why := ""
	if reason {
		cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		t, err := do(o, cmd.Context(), args[0], why)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, taskDetails, t)
	})
	return c.output(c.remote(cmd))
}

// taskEnd is a command that ends a task and shows what became of its credentials.
func (c *cli) taskEnd(verb, short string, reason bool, do endFunc) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " TASK", Short: short, Args: cobra.ExactArgs(1)}
	why := ""
	if reason {
		cmd.Flags().StringVar(&why, "reason", "", "why, for the record")
	}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		done, err := do(o, cmd.Context(), args[0], why)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, completionColumns, done)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) taskTicket() *cobra.Command {
	cmd := &cobra.Command{Use: "ticket TASK", Short: "Print another single-use enrolment ticket", Args: cobra.ExactArgs(1)}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		tk, err := o.Ticket(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, []out.Column[opened]{
			{Name: "ticket", Cell: func(o opened) string { return o.Ticket }},
			{Name: "ticket_expires_at", Cell: func(o opened) string { return out.Time(o.TicketExpiresAt) }},
		}, opened{Task: broker.Task{ID: args[0]}, Ticket: tk.Ticket.Reveal(), TicketExpiresAt: tk.ExpiresAt})
	})
	return c.output(c.remote(cmd))
}
