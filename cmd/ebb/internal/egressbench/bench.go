package egressbench

import (
	"context"
	"crypto/x509"
	"net/http"
	"time"

	"ebb/attest/jose"
)

// Config says what to measure. Members without a remark are required.
type Config struct {
	Issuer   string
	HTTP     *http.Client
	RunnerID string
	Runner   jose.Signer
	KeyFile  string // the runner's key, for `ebb run`
	Self     string // path of this program
	Dir      string // of this bench alone; its path is short enough for sockets in it
	Server   int    // process id of the ebb that is measured
	Bare     int    // of the proxy that only sets a header, see ServeBare

	Address string // of the upstream, host:port on loopback
	Roots   *x509.CertPool
	Secret  string // that the upstream wants

	Nginx    string // path of nginx; "" = it is not there
	Bwrap    string // path of bubblewrap; "" = it is not there
	Clients  []int
	Window   time.Duration // of one measurement
	Rounds   int           // of all ways
	Body     int64         // of a large answer, bytes
	Tunnels  int           // that nobody uses
	Streams  int           // that are cut
	Runs     int           // of `ebb run`
	Announce func(string)  // progress, for people
}

// Names of what is measured: the host of the upstream, the provider, its scope and the
// name of its secret.
const (
	Host     = "upstream.bench.example"
	Provider = "bench"
	Scope    = Provider + ":load:read"
	Secret   = "bench-key"
)

// run is the state of one bench.
type run struct {
	Config
	report *Report
	people *people
	ways   []way
}

// Run measures everything, and ends what it opened also when it fails.
func Run(ctx context.Context, c Config) (rep Report, err error) {
	rep = Report{Target: c.Issuer, At: time.Now().UTC(), Load: loadAverage()}
	b := &run{Config: c, report: &rep}
	if b.people, err = enter(ctx, c); err != nil {
		return rep, err
	}
	// First, while ebb has the memory of an ebb that has done nothing.
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"idle tunnels", b.tunnels}, {"", b.loads}, {"revocation", b.revoke}, {"ebb run", b.runs}} {
		if step.name != "" {
			c.Announce(step.name)
		}
		if err := step.do(ctx); err != nil {
			return rep, err
		}
	}
	rep.judge()
	return rep, nil
}

// loads measures requests and bodies, for which nginx runs.
func (b *run) loads(ctx context.Context) error {
	t, err := b.people.open(ctx, 1)
	if err != nil {
		return err
	}
	defer t.end(ctx)
	var n *nginx
	if b.Nginx != "" {
		if n, err = startNginx(ctx, b.Config); err != nil {
			return err
		}
		defer n.stop()
	}
	b.ways = b.all(t, n)
	if err := b.requests(ctx); err != nil {
		return err
	}
	b.Announce("bodies")
	return b.bodies(ctx)
}

func (b *run) add(r Row) { b.report.Rows = append(b.report.Rows, r) }
