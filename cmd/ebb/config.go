package main

import (
	"github.com/spf13/cobra"

	"ebb/cmd/ebb/internal/config"
)

func newConfig(c *cli) *cobra.Command {
	return c.group("config", "Check a configuration, or list its keys",
		&cobra.Command{
			Use: "check", Short: "Report every problem of the configuration (--config and EBB_ variables)", Args: cobra.NoArgs,
			RunE: c.do(func(*cobra.Command, []string) error {
				if _, err := c.checkConfig(); err != nil {
					return err
				}
				c.printf("ok\n")
				return nil
			}),
		},
		&cobra.Command{
			Use: "table", Short: "Print the table of keys for README.md", Args: cobra.NoArgs,
			RunE: c.do(func(*cobra.Command, []string) error {
				config.Markdown(c.stdout)
				return nil
			}),
		})
}
