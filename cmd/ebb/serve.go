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

	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// serveCommand implements ebb serve and ebb health.
type serveCommand struct{ *cli }

func newServe(c *cli) *cobra.Command {
	var keys strings.Builder
	config.Help(&keys)
	var resolve map[string]string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the broker", Args: cobra.NoArgs,
		Long: `Run the broker until SIGTERM or SIGINT; SIGHUP reloads the policies.

Without a configuration everything is embedded: SQLite and keys in the data
directory, live state in this process, and two local principals whose keys the
other commands of this user use by default. Values come from --config, then from
EBB_ variables, which take precedence. Lists of mappings are YAML in a variable too.

  KEY                      VARIABLE                       DEFAULT
` + keys.String(),
		RunE: c.do(func(cmd *cobra.Command, _ []string) error {
			r, err := newPinned(resolve)
			if err != nil {
				return err
			}
			return serveCommand{c}.serve(cmd.Context(), r)
		}),
	}
	cmd.Flags().StringToStringVar(&resolve, "resolve", nil, "`HOST=ADDRESS` of an upstream of egress, in place of what the resolver says")
	_ = cmd.Flags().MarkHidden("resolve") // for ebb-bench, whose upstream has no name in DNS
	return cmd
}

// withoutLinks is the next step if Kubernetes sets variables for Services.
const withoutLinks = "set enableServiceLinks: false in the pod's spec to avoid them"

// serve runs the broker. resolver is as in settings.
func (c serveCommand) serve(ctx context.Context, resolver egress.Resolver) error {
	cfg, err := c.checkConfig()
	if err != nil {
		return err
	}
	defer tuneCollector()()
	log, flush := newLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
	defer flush()
	if len(cfg.ServiceLinks) > 0 {
		log.WarnContext(ctx, "ignored variables that Kubernetes sets for Services; "+withoutLinks, "variables", cfg.ServiceLinks)
	}
	tracer, stopTracer, err := c.newTracer(ctx, log)
	if err != nil {
		return err
	}
	n, err := assemble(ctx, settings{Config: cfg, Log: log, Tracer: tracer, Resolver: resolver})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(cfg.DataDir, urlFile), []byte(n.url+"\n"), 0o600); err != nil {
		log.WarnContext(ctx, "writing the URL file failed; commands on this machine need --url", "error", err)
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

// reloads converts SIGHUPs to a channel without signal types.
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

// welcome prints the addresses and stores of the server.
func (c serveCommand) welcome(cfg config.Config, n *node) {
	where := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	liveStore := "in this process"
	if !cfg.Embedded() {
		liveStore = "Redis at " + strings.Join(cfg.Redis.Addrs, ", ")
	}
	for _, line := range [][2]string{
		{"API", n.url},
		{"socket", where(cfg.ListenUnix, "none (listen_unix)")},
		{"data", cfg.DataDir},
		{"database", where(cfg.Database, "SQLite in the data directory")},
		{"state", liveStore},
		{"policy", where(cfg.PolicyDir, "built-in starter policy (`ebb policy show`)")},
	} {
		fmt.Fprintf(c.stdout, "%-8s %s\n", line[0], line[1])
	}
	if len(cfg.Principals) == 0 {
		fmt.Fprintf(c.stdout, "%-8s ebb task open --name hello --scope 'local:**:*' --ticket\n", "try")
	}
}
