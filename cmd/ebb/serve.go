package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
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
		return unstarted(err)
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

// unstarted adds the next step to an error of the start. It replaces the step that a client would print: "start ebb" is
// no help when the start has just failed.
func unstarted(err error) error {
	if command.ExitOf(err) != exitUnavailable {
		return err
	}
	// PostgreSQL's client writes each address that it has tried on a line of its own.
	text := strings.Join(strings.Fields(err.Error()), " ")
	return &failure{Code: exitUnavailable, Text: out.Line(text), Next: "start what cannot be reached, or correct its address in the configuration (`ebb doctor` checks each), then run `ebb serve` again"}
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
	if ids := replaced(cfg); len(ids) > 0 {
		fmt.Fprintf(c.stdout, "%-8s no %s: the setting `principals` replaces them (`ebb config check` prints the lines that keep them)\n", "local", strings.Join(ids, " and no "))
	}
	if len(cfg.Principals) == 0 {
		fmt.Fprintf(c.stdout, "%-8s ebb task open --name hello --scope 'local:**:*' --ticket\n", "try")
	}
}

// pinned resolves some names to addresses of the command line, and every other
// name with the resolver of this machine. Egress checks its answers like those
// of any resolver: an address in a private network must be configured for its
// name.
type pinned map[string]netip.Addr

// newPinned reads the values of --resolve; nil without any.
func newPinned(texts map[string]string) (egress.Resolver, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	p := pinned{}
	for host, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, usage("--resolve: "+err.Error(), "write HOST=ADDRESS, such as api.example.com=127.0.0.1")
		}
		p[host] = a
	}
	return p, nil
}

// LookupNetIP implements egress.Resolver.
func (p pinned) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if a, ok := p[strings.TrimSuffix(host, ".")]; ok {
		return []netip.Addr{a}, nil
	}
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, network, host)
}

// newTracer exports traces over OTLP/HTTP if the standard OTEL_* variables
// request it, and else returns nil. The exporter and the SDK read the other
// OTEL_* variables (headers, sampler, resource) themselves.
func (c serveCommand) newTracer(ctx context.Context, log *slog.Logger) (tp trace.TracerProvider, stop func(context.Context) error, err error) {
	none := func(context.Context) error { return nil }
	exporter := c.env("OTEL_TRACES_EXPORTER")
	addressed := c.env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || c.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch {
	case strings.EqualFold(c.env("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && !addressed:
		return nil, none, nil
	case exporter != "" && exporter != "otlp":
		return nil, none, usage(fmt.Sprintf("OTEL_TRACES_EXPORTER is %q", exporter), "set it to otlp or none")
	}
	exp, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, none, usage("create the trace exporter: "+err.Error(), "check the OTEL_EXPORTER_OTLP_* variables")
	}
	// The SDK reports export failures to a global handler, which by default
	// prints to standard error.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("exporting traces failed", "error", err) }))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp))
	return p, p.Shutdown, nil
}
