package egressbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

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
