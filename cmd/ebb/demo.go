package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/demo"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

// demoCommand implements ebb demo.
type demoCommand struct{ *cli }

func newDemo(c *cli) *cobra.Command {
	var console bool
	var listen string
	cmd := &cobra.Command{
		Use: "demo", Short: "A guided tour with embedded services, in seconds", Args: cobra.NoArgs,
		Long: "Start all services in this process on free loopback ports, and follow one task from\nthe enrolment of its sandbox until every credential is revoked. Every expectation is\nchecked; the exit code is 0 only if all hold. Nothing outside a temporary directory is written.",
		RunE: c.do(func(cmd *cobra.Command, _ []string) error {
			if console {
				return demoCommand{c}.demoConsole(cmd.Context(), listen)
			}
			return demoCommand{c}.demo(cmd.Context())
		}),
	}
	cmd.Flags().BoolVar(&console, "console", false, "instead, run a web console with the history of one working day")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "with --console: loopback address to listen on")
	cmd.AddCommand(&cobra.Command{
		Use: "sandbox", Short: "The sandbox of the tour", Args: cobra.NoArgs, Hidden: true,
		RunE: c.do(func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // the tour ends the sandbox by closing its input
			return demo.Sandbox(context.WithoutCancel(cmd.Context()), c.env("EBB_URL"), c.stdin, c.stdout)
		}),
	}, &cobra.Command{
		Use: "rogue", Short: "The hostile program of the tour, for a box", Args: cobra.NoArgs, Hidden: true,
		RunE: c.do(func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGTERM) // the program is hostile: it runs until it is cut off
			return demo.Rogue(context.WithoutCancel(cmd.Context()), c.env, c.stdout)
		}),
	})
	return cmd
}

func (c demoCommand) demo(ctx context.Context) error {
	started := time.Now()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	shop, err := demo.OpenShop(ctx)
	if err != nil {
		return err
	}
	defer shop.Close()
	host, err := demo.OpenHost(ctx)
	if err != nil {
		return err
	}
	defer host.Close()
	pay, err := demo.OpenPayments(ctx)
	if err != nil {
		return err
	}
	defer pay.Close()
	dir, err := os.MkdirTemp("", "ebb-demo-")
	if err != nil {
		return fail(err.Error(), "set TMPDIR to a directory that this user can write to")
	}
	defer os.RemoveAll(dir)
	environ, err := pay.Environ(dir)
	if err != nil {
		return err
	}
	people, keys, err := demoPeople(shop.URL)
	if err != nil {
		return err
	}
	e, err := embed(ctx, embedding{
		People: people, Environ: environ, Resolver: pay,
		Providers: []config.Provider{
			{Name: demo.PaymentsProvider, Kind: "static", Resource: "https://" + pay.Host, Config: pay.Options()},
			{Name: demo.Provider, Kind: "jwt", Resource: shop.URL},
			{Name: demo.SSHProvider, Kind: "ssh", Resource: "https://" + host.Addr, Config: []byte(demo.SSHOptions)},
		},
		Limits: broker.Limits{PollInterval: time.Second},
	})
	if err != nil {
		return err
	}
	c.printf("ebb demo: one task, from the enrolment of its sandbox until every credential is revoked; every expectation is checked\n")
	err = demo.Run(ctx, demo.Config{
		Issuer: e.url, Shop: shop, Host: host, Payments: pay, DataDir: e.dir, Keys: keys, Executable: self, Checkpoint: e.node.broker.Checkpoint, Public: e.publicKeys, Broker: e.node.broker,
		Out: c.stdout, HTTP: &http.Client{Timeout: 30 * time.Second},
	}, started)
	if err := errors.Join(err, e.end()); err != nil {
		return fail(err.Error(), "please report the output above as a bug")
	}
	return nil
}

// demoPeople returns the principals of the tour, each with a fresh key.
func demoPeople(resource string) ([]broker.PrincipalConfig, map[string]jose.Signer, error) {
	return withKeys([]broker.Principal{
		{ID: demo.Runner, Roles: []broker.Role{broker.RoleRunner, broker.RoleApprover}, Groups: []string{"approvers"}},
		{ID: demo.Approver, Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}},
		{ID: demo.Auditor, Roles: []broker.Role{broker.RoleAuditor}},
		{ID: demo.Operator, Roles: []broker.Role{broker.RoleOperator}},
		{ID: demo.Server, Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{resource}},
	})
}

// withKeys gives each principal a fresh key.
func withKeys(people []broker.Principal) ([]broker.PrincipalConfig, map[string]jose.Signer, error) {
	var out []broker.PrincipalConfig
	signers := map[string]jose.Signer{}
	for _, p := range people {
		signer, err := client.NewKey(jose.ES256)
		if err != nil {
			return nil, nil, err
		}
		key, err := keyfile.Public(signer)
		if err != nil {
			return nil, nil, err
		}
		signers[p.ID] = signer
		out = append(out, broker.PrincipalConfig{Principal: p, Keys: []jose.Key{key}})
	}
	return out, signers, nil
}

// quiet returns a logger that discards everything: an error of an embedded
// service shows as an expectation that fails.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
