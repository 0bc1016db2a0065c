package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/vaultbench"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

func newVault(c *cli) *cobra.Command {
	var v vaultbench.Config
	cmd := &cobra.Command{
		Use: "vault", Short: "Measure a Vault or OpenBao with the same load generator, for comparison", Args: cobra.NoArgs,
		Long: `Measure a Vault or OpenBao without TLS: tokens that are created and looked up by 1, 16
and 64 clients, and parents that are revoked with their children. The rows are printed
as JSON. The server needs a policy named task.`,
	}
	fl := cmd.Flags()
	fl.StringVar(&v.Address, "addr", "127.0.0.1:8200", "`host:port` of the server")
	fl.StringVar(&v.Token, "token", "root", "token that creates and looks up")
	fl.DurationVar(&v.Window, "window", 4*time.Second, "duration of one measurement")
	fl.IntSliceVar(&v.Children, "children", []int{10, 1000}, "numbers of children of the parents that are revoked")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		report, err := vaultbench.Run(cmd.Context(), v)
		if err != nil {
			return command.Fail(err.Error(), "check that the server is at --addr, and that --token may create tokens of a policy named task")
		}
		return out.One(c.stdout, out.JSON, nil, report)
	})
	return cmd
}
