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

Start it beside the agent and in its sandbox: the connection shows that the sandbox
is running. If the connection breaks and is not back within --grace, the task ends
and every credential of it is revoked. A restart of ebb does not count as a break.`,
	}
	cmd.Flags().DurationVar(&grace, "grace", 10*time.Second, "how long the connection may be broken, 0 to 60s")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if grace < 0 || grace > time.Minute || grace%time.Second != 0 {
			return usage("--grace must be a whole number of seconds from 0 to 60s", "write it like 10s")
		}
		s, _, err := tokenCommands{c}.sandbox(cmd, &t)
		if err != nil {
			return err
		}
		return s.Hold(cmd.Context(), grace)
	})
	return c.sandboxed(cmd)
}
