package main

import (
	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/shim"
)

func newShim(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "shim", Short: "The first process of a box, which ebb run starts", Hidden: true, DisableFlagParsing: true,
		RunE: c.do(func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "--help" {
				return cmd.Help()
			}
			s, err := shim.Parse(args)
			if err != nil {
				return usage(err.Error(), "`ebb run` starts it")
			}
			code, err := shim.Run(s)
			c.status = exit(code)
			return err
		}),
	}
}
