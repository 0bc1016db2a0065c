package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
)

// action acts on the task, credential or other object with an id.
type action[T any] func(ctx context.Context, id string) (T, error)

// actionFor is an action with a reason.
type actionFor[T any] func(ctx context.Context, id, reason string) (T, error)

// onOne makes a command that performs one action on a task or credential, named
// by its argument, and prints the result.
func onOne[T any](c *cli, use, short string, columns []out.Column[T], do func(*client.Operator) action[T]) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		answer, err := do(o)(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, columns, answer)
	})
	return c.output(c.remote(cmd))
}

// onOneFor is onOne with a --reason.
func onOneFor[T any](c *cli, use, short string, columns []out.Column[T], do func(*client.Operator) actionFor[T]) *cobra.Command {
	reason := ""
	cmd := onOne(c, use, short, columns, func(o *client.Operator) action[T] {
		return func(ctx context.Context, id string) (T, error) { return do(o)(ctx, id, reason) }
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why; written to the audit log")
	return cmd
}
