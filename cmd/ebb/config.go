package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

func newConfig(c *cli) *cobra.Command {
	return c.group("config", "Check a configuration",
		&cobra.Command{
			Use: "check [FILE]", Short: "Report every problem of a configuration file and the EBB_ variables", Args: cobra.MaximumNArgs(1),
			Long: `Report every problem that 'ebb serve' would find in a configuration file and in the EBB_
variables, which take precedence over the file. Without FILE the command checks the file
of --config; without either it checks the variables alone.`,
			RunE: c.do(func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					c.configFile = args[0]
				}
				cfg, err := c.checkConfig()
				if err != nil {
					return err
				}
				if len(cfg.ServiceLinks) > 0 {
					c.sayf("ebb: ignored %s, which Kubernetes sets for Services; %s\n", strings.Join(cfg.ServiceLinks, ", "), withoutLinks)
				}
				if ids := replaced(cfg); len(ids) > 0 {
					c.sayf("note: the setting `principals` replaces %s, so commands on this machine need --key. To keep them, add to `principals`:\n%s", strings.Join(ids, " and "), keepLocal(cfg))
				}
				c.printf("ok\n")
				return nil
			}),
		},
		&cobra.Command{
			Use: "table", Short: "Print the table of keys for the documentation", Args: cobra.NoArgs, Hidden: true,
			RunE: c.do(func(*cobra.Command, []string) error {
				config.Markdown(c.stdout)
				return nil
			}),
		})
}
