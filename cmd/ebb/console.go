package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newConsole(c *cli) *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "console", Short: "Create a link that signs you in to the web console", Args: cobra.NoArgs,
		Long: `Create a link that signs you in to the web console of the ebb on this machine. The
link works once, within two minutes. Without a configuration there are two local
people, because no person can approve requests of their own tasks: the approver, and
the operator, who can also read the whole audit log.

On loopback the console has a host name of its own under localhost, so that no other
program of this machine receives its cookies. Chromium and Firefox resolve the name to
this machine; for other browsers ` + "`ebb doctor`" + ` prints the line to add to /etc/hosts.`,
	}
	cmd.Flags().StringVar(&as, "as", "approver", "approver or operator; ignored with --key")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		local := map[string]string{"approver": approverKey, "operator": operatorKey}[as]
		if local == "" {
			return usage("--as must be approver or operator", "choose one of them")
		}
		o, err := c.operator(local)
		if err != nil {
			return err
		}
		link, err := o.SignInLink(cmd.Context(), "")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.stdout, link.Reveal())
		return err
	})
	return c.remote(cmd)
}
