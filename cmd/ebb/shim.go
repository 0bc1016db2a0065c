package main

import (
	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/shim"
)

func newShim(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "shim", Short: "The first process of a sandbox, started by ebb run", Hidden: true, DisableFlagParsing: true,
		RunE: c.do(func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "--help" {
				return cmd.Help()
			}
			s, err := shim.Parse(args)
			if err != nil {
				return usage(err.Error(), "this command is started by `ebb run`")
			}
			code, err := shim.Run(s)
			c.status = exit(code)
			return err
		}),
	}
}
