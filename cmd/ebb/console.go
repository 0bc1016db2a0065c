package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newConsole(c *cli) *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "console", Short: "Make a link that signs you in to the web console", Args: cobra.NoArgs,
		Long: `Make a link that signs you in to the web console of the ebb on this machine. It
works once, within two minutes. Without a configuration there are two people, because
nobody approves requests of their own tasks: the approver, and the operator, who also
reads the whole record.

On loopback the console has a host name of its own under localhost, so that no other
program of this machine gets its cookies. Chromium and Firefox know that it is this
machine; for other browsers ` + "`ebb doctor`" + ` says what to add to /etc/hosts.`,
	}
	cmd.Flags().StringVar(&as, "as", "approver", "approver or operator; with --key, whoever's key that is")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		local := map[string]string{"approver": approverKey, "operator": operatorKey}[as]
		if local == "" {
			return usage("--as is neither approver nor operator", "choose one of them")
		}
		o, err := c.operator(local)
		if err != nil {
			return err
		}
		link, err := o.SignInLink(cmd.Context())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.stdout, link.Reveal())
		return err
	})
	return c.remote(cmd)
}
