package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// Config configures Run. Fields whose comment gives no default are required.
type Config struct {
	Issuer    string
	HTTP      *http.Client
	Target    load.Target
	RunnerID  string
	Runner    jose.Signer
	ServerID  string      // resource server of Resource; "" = no introspection and no offline verification
	Server    jose.Signer //
	Scope     string      // of the minted tokens; policy must grant it without an approval
	Resource  string      // resource of the scope's provider
	Clients   []int
	Window    time.Duration // of one measurement
	Leases    []int         // live tokens of the tasks that are completed
	Rounds    int           // maximum number of tasks for each of Leases; 0 = enough for percentiles
	Announce  func(string)  // progress, for people
	TaskTTL   time.Duration // of the tasks that are opened
	Heartbeat time.Duration // of the same: how long they outlive a bench that is killed
	// Restart restarts the ebb at the same address and returns the time from its
	// start to ready; nil = it cannot be restarted.
	Restart func(context.Context) (time.Duration, error)
}

// Row is one line of the report.
type Row struct {
	load.Result
	Note string `json:"note,omitempty"`
}

// Report is the whole report.
type Report struct {
	Target string    `json:"target"`
	At     time.Time `json:"at"`
	Rows   []Row     `json:"rows"`
}

// maxRequests is the maximum number of requests built and signed for one
// window.
const maxRequests = 40_000

// MaxWindow leaves time to make the proofs and to warm up: a proof is valid for
// one minute.
const MaxWindow = 30 * time.Second

// Run runs all measurements. It completes its tasks also if it fails.
func Run(ctx context.Context, c Config) (rep Report, err error) {
	rep = Report{Target: c.Issuer, At: time.Now().UTC()}
	b := &run{Config: c, report: &rep}
	if err := b.enter(ctx); err != nil {
		return rep, err
	}
	c.Announce("mint")
	task, err := b.newTask(ctx)
	if err != nil {
		return rep, err
	}
	defer func() { _, _ = b.runner.Tasks.Complete(context.WithoutCancel(ctx), task.id) }()
	var tokens []string
	for _, n := range c.Clients {
		if tokens, err = b.mint(ctx, task, n); err != nil {
			return rep, err
		}
	}
	if c.ServerID != "" {
		c.Announce("introspect")
		if err := b.introspect(ctx, tokens); err != nil {
			return rep, err
		}
		c.Announce("verify offline")
		if err := b.offline(ctx, task, tokens); err != nil {
			return rep, err
		}
	}
	for _, n := range c.Leases {
		c.Announce(fmt.Sprintf("complete with %d live tokens", n))
		if err := b.complete(ctx, n); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// load runs one job while this process does nothing else.
func (b *run) load(ctx context.Context, j load.Job) (load.Result, error) {
	defer load.Quiet()()
	return load.Run(ctx, b.Target, j)
}

// warmUp is the time before a window in which connections, caches and pools of
// the server are filled.
func (b *run) warmUp() time.Duration { return b.Window / 4 }

func (b *run) add(r load.Result, note string) {
	b.report.Rows = append(b.report.Rows, Row{Result: r, Note: note})
}
