package egressbench

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// Config configures Run. Fields whose comment gives no default are required.
type Config struct {
	Issuer   string
	HTTP     *http.Client
	RunnerID string
	Runner   jose.Signer
	KeyFile  string // the runner's key, for `ebb run`
	Ebb      string // path of the ebb binary
	Dir      string // used by this benchmark alone; its path is short enough for sockets in it
	Server   int    // process ID of the measured ebb
	Bare     int    // process ID of ServeHeaderProxy

	Address string // of the upstream, host:port on loopback
	Roots   *x509.CertPool
	Secret  string // that the upstream requires

	Nginx    string // path of nginx; "" = not installed
	Bwrap    string // path of bubblewrap; "" = not installed
	Clients  []int
	Window   time.Duration // duration of one measurement
	Rounds   int           // rounds over all ways
	Body     int64         // size of a large response in bytes
	Tunnels  int           // number of idle tunnels
	Streams  int           // number of streams that are cut off by revocation
	Runs     int           // number of runs of `ebb run`
	Announce func(string)  // prints progress
}

// Names in the benchmark: the host of the upstream, the provider, its scope and
// the name of its secret.
const (
	Host     = "upstream.bench.example"
	Provider = "bench"
	Scope    = Provider + ":load:read"
	Secret   = "bench-key"
)

// run is the state of one benchmark.
type run struct {
	Config
	report *Report
	people *people
	ways   []way
}

// Run runs all measurements, and closes its tasks also if it fails.
func Run(ctx context.Context, c Config) (rep Report, err error) {
	rep = Report{Target: c.Issuer, At: time.Now().UTC(), Load: loadAverage()}
	b := &run{Config: c, report: &rep}
	if b.people, err = enter(ctx, c); err != nil {
		return rep, err
	}
	// Idle tunnels come first, while the ebb has not yet allocated memory for
	// other work.
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

// loads measures requests and bodies, for which nginx is started.
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

// User ID of the sandbox if root runs the benchmark.
const nobody = 65534

// runs measures `ebb run -- true`, and `true` in bubblewrap, in turn.
func (b *run) runs(ctx context.Context) error {
	if b.Bwrap == "" {
		b.add(Row{Result: load.Result{Op: opRun}, Way: wayRun, Note: "not measured: bubblewrap is not installed"})
		return nil
	}
	work := filepath.Join(b.Dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	line := []string{"run", "--scope", Scope, "--work", work}
	if os.Geteuid() == 0 {
		if err := os.Chown(work, nobody, nobody); err != nil {
			return err
		}
		line = append(line, "--user", fmt.Sprintf("%d:%[1]d", nobody))
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + b.Dir, "HOME=" + b.Dir, "XDG_DATA_HOME=" + b.Dir, "EBB_URL=" + b.Issuer, "EBB_KEY_FILE=" + b.KeyFile, "EBB_CLIENT_ID=" + b.RunnerID}
	kinds := []struct {
		way  string
		argv []string
		took []time.Duration
		note string
	}{
		{way: wayBwrap, argv: []string{b.Bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "true"}},
		{way: wayRun, argv: append(append([]string{b.Ebb}, line...), "--", "true"), note: "includes opening and closing the task, the sandbox and its egress endpoint, each with an audit entry"},
	}
	for range b.Runs {
		for i := range kinds {
			k := &kinds[i]
			cmd := exec.CommandContext(ctx, k.argv[0], k.argv[1:]...)
			cmd.Env = env
			start := time.Now()
			said, err := cmd.CombinedOutput()
			if err != nil && k.way == wayBwrap {
				b.add(Row{Result: load.Result{Op: opRun}, Way: wayRun, Note: "not measured: bubblewrap cannot create a sandbox on this machine: " + strings.TrimSpace(string(said))})
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w: %s", k.way, err, strings.TrimSpace(string(said)))
			}
			k.took = append(k.took, time.Since(start))
		}
	}
	for _, k := range kinds {
		b.add(Row{Result: load.Summary(opRun, 1, 0, k.took), Way: k.way, Note: k.note})
	}
	return nil
}
