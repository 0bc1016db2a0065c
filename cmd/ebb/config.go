package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

func newConfig(c *cli) *cobra.Command {
	return c.group("config", "Check a configuration, or list its keys",
		&cobra.Command{
			Use: "check", Short: "Report every problem of the configuration (--config and EBB_ variables)", Args: cobra.NoArgs,
			RunE: c.do(func(*cobra.Command, []string) error {
				cfg, err := c.checkConfig()
				if err != nil {
					return err
				}
				if len(cfg.ServiceLinks) > 0 {
					c.sayf("ebb: ignored %s, which Kubernetes sets for Services; %s\n", strings.Join(cfg.ServiceLinks, ", "), withoutLinks)
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
