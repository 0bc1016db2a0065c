package egressbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ebb/web/load"
)

// nobody is who a box is where the bench is root.
const nobody = 65534

// runs measures `ebb run -- true` and bubblewrap that runs true, in turn.
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
		{way: wayRun, argv: append(append([]string{b.Self}, line...), "--", "true"), note: "task, sandbox, box and way out opened and ended, each on the record"},
	}
	for range b.Runs {
		for i := range kinds {
			k := &kinds[i]
			cmd := exec.CommandContext(ctx, k.argv[0], k.argv[1:]...)
			cmd.Env = env
			start := time.Now()
			said, err := cmd.CombinedOutput()
			if err != nil && k.way == wayBwrap {
				b.add(Row{Result: load.Result{Op: opRun}, Way: wayRun, Note: "not measured: bubblewrap can make no box here: " + strings.TrimSpace(string(said))})
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
