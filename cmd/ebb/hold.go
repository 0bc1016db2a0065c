package main

import (
	"time"

	"github.com/spf13/cobra"
)

func newHold(c *cli) *cobra.Command {
	var t tokenFlags
	var grace time.Duration
	cmd := &cobra.Command{
		Use: "hold", Short: "Hold a control connection, as a sandbox", Args: cobra.NoArgs,
		Long: `Hold a control connection, as a sandbox, until the task ends.

Started beside the agent and in its sandbox, it is the sandbox's sign of life: when
it dies with the sandbox, and nothing of it is back within --grace, the task ends
and every credential with it. ebb being restarted ends nothing.`,
	}
	cmd.Flags().DurationVar(&grace, "grace", 10*time.Second, "how long the sandbox may take to come back, 0 to 60s")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if grace < 0 || grace > time.Minute || grace%time.Second != 0 {
			return usage("--grace is not a number of seconds from 0 to 60s", "write it like 10s")
		}
		s, _, err := c.sandbox(cmd, &t)
		if err != nil {
			return err
		}
		return s.Hold(cmd.Context(), grace)
	})
	return c.boxed(cmd)
}
