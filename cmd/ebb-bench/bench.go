package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/bench"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

var benchColumns = []out.Column[bench.Row]{
	{Name: "op", Cell: func(r bench.Row) string { return r.Op }},
	{Name: "clients", Cell: func(r bench.Row) string { return strconv.Itoa(r.Clients) }},
	{Name: "ops", Cell: func(r bench.Row) string { return strconv.Itoa(r.Ops) }},
	{Name: "errors", Cell: func(r bench.Row) string { return strconv.Itoa(r.Errors) }},
	{Name: "per_second", Cell: func(r bench.Row) string {
		if r.Rate == 0 {
			return ""
		}
		return strconv.FormatFloat(r.Rate, 'f', 0, 64)
	}},
	{Name: "p50_ms", Cell: func(r bench.Row) string { return millis(r.P50) }},
	{Name: "p99_ms", Cell: func(r bench.Row) string { return millis(r.P99) }},
	{Name: "max_ms", Cell: func(r bench.Row) string { return millis(r.Max) }},
	{Name: "client_us", Cell: func(r bench.Row) string {
		if r.ClientCPU == 0 {
			return ""
		}
		return strconv.FormatInt(r.ClientCPU.Microseconds(), 10)
	}},
	{Name: "note", Cell: func(r bench.Row) string { return r.Note + " " + r.First }, Form: out.Prose},
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 3, 64)
}

// benchFlags select the measurements and the ebb to measure.
type benchFlags struct {
	clients, leases     []int
	window              time.Duration
	scope, resource     string
	serverKey, serverID string
	rounds              int
	quick               bool
}

func newRoot(c *cli) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:               "ebb-bench",
		Short:             "Measure an ebb: mint, introspect, offline verification and the completion of tasks",
		Args:              cobra.NoArgs,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Long: `Measure an ebb with a closed loop: one connection per client, requests and proofs built
before the measurement starts, and a warm-up of a quarter of the window. client_us is
the processor time that this process used for one request; on one machine it was not
available to the server. 200 tasks with 10 live tokens are completed, 50 with 1,000, 7
with 10,000 and 3 with 100,000. Without --url the command starts ` + "`ebb serve`" + ` (--ebb), with
its data in a temporary directory and the database and Redis of --config and EBB_
variables (default: SQLite, and live state in the process). With --url, which must be
loopback or public_url of the configuration, it measures an ebb that is already running.
That needs a runner key (--key), limits that allow it (limits.max_*, limits.owner_*), and
for introspection and verification the key of a resource server (--server-key). The
command ends by itself and completes the tasks that it opened.

Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 refused; 5 unavailable.`,
	}
	fl := cmd.Flags()
	fl.IntSliceVar(&f.clients, "clients", []int{1, 16, 64}, "concurrent clients, one measurement each")
	fl.IntSliceVar(&f.leases, "leases", []int{10, 1000, 10_000, 100_000}, "live tokens of the tasks that are completed")
	fl.DurationVar(&f.window, "window", 4*time.Second, "maximum duration of one measurement")
	fl.StringVar(&f.scope, "scope", "bench:load/1:read", "scope to ask for; policy must grant it without an approval")
	fl.StringVar(&f.resource, "resource", "", "resource of the scope's provider, with --url")
	fl.StringVar(&f.serverKey, "server-key", "", "key `file` of a resource server, with --url")
	fl.StringVar(&f.serverID, "server-id", "", "principal of --server-key; default: the one in the key file")
	fl.BoolVar(&f.quick, "quick", false, "a smoke test of a few seconds: 1 and 8 clients, 10 and 200 tokens, 5 tasks each")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if f.quick {
			f.clients, f.leases, f.window, f.rounds = []int{1, 8}, []int{10, 200}, 300*time.Millisecond, 5
		}
		return c.bench(cmd, &f)
	})
	cmd.PersistentFlags().StringVar(&c.configFile, "config", c.env("EBB_CONFIG"), "configuration `file` of the server (EBB_CONFIG)")
	cmd.PersistentFlags().StringVar(&c.ebb, "ebb", "", "`path` of the ebb program to measure; default: ebb beside this program, then ebb on PATH")
	cmd.AddCommand(newEgress(c), newVault(c))
	return c.output(c.remote(cmd))
}

func (c *cli) bench(cmd *cobra.Command, f *benchFlags) error {
	if f.window < 50*time.Millisecond || f.window > bench.MaxWindow {
		return command.Usage("--window is out of range", "choose from 50ms to "+bench.MaxWindow.String())
	}
	for _, n := range append(append([]int{}, f.clients...), f.leases...) {
		if n < 1 || n > 200_000 {
			return command.Usage(fmt.Sprintf("%d is out of range", n), "choose from 1 to 200000")
		}
	}
	b := bench.Config{
		Scope: f.scope, Resource: f.resource, Clients: f.clients, Window: f.window, Leases: f.leases, Rounds: f.rounds, TaskTTL: time.Hour, Heartbeat: 15 * time.Minute,
		Announce: func(what string) { c.sayf("ebb-bench: %s ...\n", what) },
	}
	var err error
	if c.url == "" {
		stop, serr := c.startServer(cmd.Context(), &b)
		if serr != nil {
			return serr
		}
		defer stop()
	} else if err := c.benchRemote(f, &b); err != nil {
		return err
	}
	if b.HTTP, err = command.HTTPClient(c.caFile); err != nil {
		return err
	}
	if b.Target.URL, err = url.Parse(b.Issuer); err != nil {
		return err
	}
	if b.Target.TLS, err = command.TLSConfig(c.caFile); err != nil {
		return err
	}
	report, err := bench.Run(cmd.Context(), b)
	if c.format == out.JSON {
		if perr := out.One(c.stdout, c.format, nil, report); perr != nil {
			return perr
		}
		return err
	}
	if perr := out.List(c.stdout, c.format, benchColumns, report.Rows); perr != nil {
		return perr
	}
	return err
}

// benchRemote reads the keys from files. It refuses a host that is neither
// loopback nor in the configuration, so that a typing mistake cannot direct
// load at a foreign server.
func (c *cli) benchRemote(f *benchFlags, b *bench.Config) error {
	u, err := url.Parse(c.url)
	if err != nil || u.Host == "" {
		return command.Usage("--url is not a URL", "write one such as http://127.0.0.1:8420")
	}
	if !fetch.Loopback(u.Hostname()) {
		cfg, err := config.Load(config.Source{File: c.configFile, Environ: c.environ})
		if err != nil {
			return err
		}
		if cfg.PublicURL != c.url {
			return command.Usage("this host is neither loopback nor public_url of the configuration", "name the configuration of that ebb with --config")
		}
	}
	path := c.keyFile
	if path == "" {
		path = filepath.Join(c.dataDir(), config.OperatorKey)
	}
	runner, err := keyfile.Read(path)
	if err != nil {
		return command.Usage(err.Error(), "name a runner's key with --key")
	}
	b.Issuer, b.RunnerID, b.Runner = c.url, runner.ClientID, runner.Key
	if c.clientID != "" {
		b.RunnerID = c.clientID
	}
	if f.serverKey == "" {
		c.sayf("ebb-bench: without --server-key neither introspection nor verification is measured\n")
		return nil
	}
	server, err := keyfile.Read(f.serverKey)
	if err != nil {
		return command.Usage(err.Error(), "name a resource server's key with --server-key")
	}
	b.ServerID, b.Server = server.ClientID, server.Key
	if f.serverID != "" {
		b.ServerID = f.serverID
	}
	if b.ServerID == "" || b.Resource == "" {
		return command.Usage("a resource server needs its name and its resource", "set --server-id and --resource")
	}
	return nil
}
