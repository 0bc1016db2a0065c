package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/bench"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/egressbench"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

var egressColumns = []out.Column[egressbench.Row]{
	{Name: "op", Cell: func(r egressbench.Row) string { return r.Op }},
	{Name: "way", Cell: func(r egressbench.Row) string { return r.Way }},
	{Name: "clients", Cell: func(r egressbench.Row) string { return strconv.Itoa(r.Clients) }},
	{Name: "ops", Cell: func(r egressbench.Row) string { return strconv.Itoa(r.Ops) }},
	{Name: "errors", Cell: func(r egressbench.Row) string { return strconv.Itoa(r.Errors) }},
	{Name: "per_second", Cell: func(r egressbench.Row) string { return figure(r.Rate, 0) }},
	{Name: "p50_ms", Cell: func(r egressbench.Row) string { return figure(float64(r.P50)/1e6, 3) }},
	{Name: "p99_ms", Cell: func(r egressbench.Row) string { return figure(float64(r.P99)/1e6, 3) }},
	{Name: "proxy_us", Cell: func(r egressbench.Row) string { return figure(float64(r.CPU)/1e3, 0) }},
	{Name: "mb_per_second", Cell: func(r egressbench.Row) string { return figure(r.MBps, 0) }},
	{Name: "note", Cell: func(r egressbench.Row) string { return r.Note + " " + r.First }, Form: out.Prose},
}

var boundColumns = []out.Column[egressbench.Bound]{
	{Name: "bound", Cell: func(b egressbench.Bound) string { return b.Name }},
	{Name: "asked", Cell: func(b egressbench.Bound) string { return figure(b.Bound, 1) + " " + b.Unit }},
	{Name: "measured", Cell: func(b egressbench.Bound) string { return strconv.FormatFloat(b.Measured, 'f', 2, 64) + " " + b.Unit }},
	{Name: "holds", Cell: func(b egressbench.Bound) string { return map[bool]string{true: "yes", false: "NO"}[b.Holds] }},
}

// figure formats x, and returns "" for 0, which means that it was not measured.
func figure(x float64, digits int) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

func newEgress(c *cli) *cobra.Command {
	b := egressbench.Config{}
	var quick bool
	var mib int
	cmd := &cobra.Command{
		Use: "egress", Short: "Measure the egress proxy, and nginx for comparison if it is installed", Args: cobra.NoArgs,
		Long: `Measure the cost of requests to which egress adds a credential: small requests from 1,
16 and 64 clients that each wait for their response; large responses; idle tunnels; the
time until streams end after their credential is revoked; and the start-up time that ebb
run adds to bubblewrap. Each is measured in turn directly against the upstream, through
nginx that adds a header and writes no log, through a proxy of Go's net/http that does
the same, and through ebb. Medians of all rounds are reported.

The command starts ` + "`ebb serve`" + ` (--ebb) and an upstream, with their data in a temporary
directory and the database and Redis of --config and EBB_ variables (default:
SQLite, and live state in the process). proxy_us is the processor time on all cores that
the proxy used for one request, read from /proc, so it needs Linux. This ebb identifies
sandboxes by their sockets (egress.identity: socket), because the clients run in no
sandbox: egress asks the kernel for the processes of a sandbox once per connection, and
these connections are reused. Each idle tunnel has served one request.`,
	}
	fl := cmd.Flags()
	fl.IntSliceVar(&b.Clients, "clients", []int{1, 16, 64}, "concurrent clients, 1 to 64, one measurement each")
	fl.DurationVar(&b.Window, "window", 2*time.Second, "duration of one measurement")
	fl.IntVar(&b.Rounds, "rounds", 5, "measurements of which the median is reported")
	fl.IntVar(&mib, "body", 64, "large answers, in MiB")
	fl.IntVar(&b.Tunnels, "tunnels", 1000, "idle tunnels")
	fl.IntVar(&b.Streams, "streams", 500, "streams whose credential is revoked")
	fl.IntVar(&b.Runs, "runs", 20, "number of times that ebb run is started")
	fl.BoolVar(&quick, "quick", false, "a smoke test of a few seconds; its figures are not meaningful")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if quick {
			b.Clients, b.Window, b.Rounds, mib, b.Tunnels, b.Streams, b.Runs = []int{1, 8}, 150*time.Millisecond, 1, 4, 20, 20, 1
		}
		b.Body = int64(mib) << 20
		return c.benchEgress(cmd.Context(), b)
	})
	cmd.AddCommand(newUpstream(c), newHeaderProxy(c))
	return c.output(cmd)
}

func (c *cli) benchEgress(ctx context.Context, b egressbench.Config) error {
	if b.Window < 50*time.Millisecond || b.Window > bench.MaxWindow {
		return command.Usage("--window is out of range", "choose from 50ms to "+bench.MaxWindow.String())
	}
	for _, n := range b.Clients {
		if n < 1 || n > 64 {
			return command.Usage(fmt.Sprintf("%d clients are out of range", n), "choose from 1 to 64, the maximum number of connections of one sandbox")
		}
	}
	for _, n := range []int64{int64(b.Rounds), b.Body >> 20, int64(b.Tunnels), int64(b.Streams), int64(b.Runs)} {
		if n < 1 || n > 4000 {
			return command.Usage(fmt.Sprintf("%d is out of range", n), "choose from 1 to 4000")
		}
	}
	if path, err := exec.LookPath("bwrap"); err == nil {
		b.Bwrap = path
	}
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil && b.Nginx == "" {
			b.Nginx = path
		}
	}
	b.Announce = func(what string) { c.sayf("ebb-bench egress: %s ...\n", what) }
	if b.Nginx == "" {
		c.sayf("ebb-bench egress: nginx is not installed; the comparison with it is skipped\n")
	}
	stop, err := c.startEgress(ctx, &b)
	if err != nil {
		return err
	}
	defer stop()
	if b.HTTP, err = command.HTTPClient(c.caFile); err != nil {
		return err
	}
	report, err := egressbench.Run(ctx, b)
	if err != nil {
		return err
	}
	if c.format == out.JSON {
		return out.One(c.stdout, c.format, nil, report)
	}
	if err := out.List(c.stdout, c.format, egressColumns, report.Rows); err != nil || !c.format.IsTable() {
		return err
	}
	fmt.Fprintln(c.stdout)
	return out.List(c.stdout, c.format, boundColumns, report.Bounds)
}
