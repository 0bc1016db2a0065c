package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ebb/broker/egress"
	"ebb/cmd/ebb/internal/config"
)

func newServe(c *cli) *cobra.Command {
	var keys strings.Builder
	config.Help(&keys)
	return &cobra.Command{
		Use: "serve", Short: "Run the broker", Args: cobra.NoArgs,
		Long: `Run the broker until SIGTERM or SIGINT; SIGHUP reloads the policies.

Without a configuration everything is embedded: SQLite and keys in the data
directory, the ledger in this process, and two local principals whose keys the
other commands of this user find by themselves. Values come from --config, then
from EBB_ variables, which win. Lists of mappings are YAML in a variable, too.

  KEY                      VARIABLE                       DEFAULT
` + keys.String(),
		RunE: c.do(func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), nil) }),
	}
}

// serve runs the broker. resolver is as in settings.
func (c *cli) serve(ctx context.Context, resolver egress.Resolver) error {
	cfg, err := c.checkConfig()
	if err != nil {
		return err
	}
	defer tuneCollector()()
	log, flush := newLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
	defer flush()
	tracer, stopTracer, err := c.newTracer(ctx, log)
	if err != nil {
		return err
	}
	n, err := wire(ctx, settings{Config: cfg, Log: log, Tracer: tracer, Resolver: resolver})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(cfg.DataDir, urlFile), []byte(n.url+"\n"), 0o600); err != nil {
		log.WarnContext(ctx, "commands on this machine will not find this ebb by themselves; use --url", "error", err)
	}
	c.welcome(cfg, n)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	err = n.serve(ctx, reloads(ctx, hup))
	if terr := stopTracer(context.WithoutCancel(ctx)); terr != nil {
		log.WarnContext(ctx, "the last traces were not exported", "error", terr)
	}
	return err
}

// reloads makes a channel of SIGHUPs that does not know of signals.
func reloads(ctx context.Context, hup <-chan os.Signal) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
			}
			select {
			case <-ctx.Done():
				return
			case out <- struct{}{}:
			}
		}
	}()
	return out
}

// welcome tells a person at the terminal where everything is.
func (c *cli) welcome(cfg config.Config, n *node) {
	where := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	ledger := "in this process"
	if !cfg.Embedded() {
		ledger = "Redis at " + strings.Join(cfg.Redis.Addrs, ", ")
	}
	for _, line := range [][2]string{
		{"API", n.url},
		{"socket", where(cfg.ListenUnix, "none (listen_unix)")},
		{"data", cfg.DataDir},
		{"journal", where(cfg.Database, "SQLite in the data directory")},
		{"ledger", ledger},
		{"policy", where(cfg.PolicyDir, "built-in starter policy (`ebb policy show`)")},
	} {
		fmt.Fprintf(c.stdout, "%-8s %s\n", line[0], line[1])
	}
	if len(cfg.Principals) == 0 {
		fmt.Fprintf(c.stdout, "%-8s ebb task open --name hello --scope 'local:**:*' --ticket\n", "try")
	}
}
