package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"ebb/attest/jose"
	"ebb/web/load"
)

// Config says what to measure. Members without a remark are required.
type Config struct {
	Issuer    string
	HTTP      *http.Client
	Target    load.Target
	RunnerID  string
	Runner    jose.Signer
	ServerID  string      // resource server of Resource; "" = no introspection and no offline checks
	Server    jose.Signer //
	Scope     string      // asked for: granted without a person, within its own ceiling
	Resource  string      // resource of the scope's provider
	Clients   []int
	Window    time.Duration // of one measurement
	Leases    []int         // live tokens of the tasks that are completed
	Rounds    int           // at most so many ends for each of Leases; 0 = enough for percentiles
	Announce  func(string)  // progress, for people
	TaskTTL   time.Duration // of the tasks that are opened
	Heartbeat time.Duration // of the same: how long they outlive a bench that dies
	// Restart stops the ebb, starts it again at the same address and says how long
	// it took from the start to ready; nil = it cannot be restarted from here.
	Restart func(context.Context) (time.Duration, error)
}

// Row is one line of the report.
type Row struct {
	load.Result
	Note string `json:"note,omitempty"`
}

// Report is all of it.
type Report struct {
	Target string    `json:"target"`
	At     time.Time `json:"at"`
	Rows   []Row     `json:"rows"`
}

// maxRequests bounds what is built for one window: bytes and signatures.
const maxRequests = 40_000

// MaxWindow leaves time to make the proofs and to warm up: a proof is good for
// a minute.
const MaxWindow = 30 * time.Second

// Run measures everything. It ends its tasks also when it fails.
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
	defer func() { _, _ = b.runner.Complete(context.WithoutCancel(ctx), task.id) }()
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

// load runs one job while nothing else happens in this process.
func (b *run) load(ctx context.Context, j load.Job) (load.Result, error) {
	defer load.Quiet()()
	return load.Run(ctx, b.Target, j)
}

// warmUp is the time before a window: connections, caches and pools of the
// server settle.
func (b *run) warmUp() time.Duration { return b.Window / 4 }

func (b *run) add(r load.Result, note string) {
	b.report.Rows = append(b.report.Rows, Row{Result: r, Note: note})
}
