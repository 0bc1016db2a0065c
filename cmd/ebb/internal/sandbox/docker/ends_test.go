//go:build linux

package docker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
)

// TestEnds: the exit code of the command is that of the sandbox.
func TestEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 125": 125, "kill -TERM $$": 143, "kill -KILL $$": 137, "exec 1>&-; exit 3": 3} {
		if code, out, errs := b.Start("sh", "-c", script).End(); code != want {
			t.Errorf("%s: exit code %d, want %d\n%s%s", script, code, want, out, errs)
		}
	}
	for _, program := range []string{"no-such-program", sandbox.WorkDir} {
		r := b.Start(program)
		if _, err := r.Wait(); !errors.Is(err, sandbox.ErrCommand) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestSignals: the command gets the signals sent to the sandbox. No process in
// the sandbox can end the first process.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.Start("sh", "-c", `trap 'echo term; exit 42' TERM; kill -KILL 1; kill -STOP 1; echo up >up; while :; do sleep 0.05; done`)
	sandboxtest.Until(t, "up", func() bool {
		_, err := os.Stat(filepath.Join(b.Spec.Work, "up"))
		return err == nil
	})
	_ = r.Signal(unix.SIGTERM)
	if code, out, _ := r.End(); code != 42 || !strings.Contains(out, "term") {
		t.Errorf("exit code %d, %q", code, out)
	}
	r = b.Start("sleep", "600")
	r.Kill()
	if code, _, _ := r.End(); code != 137 {
		t.Errorf("killed: exit code %d", code)
	}
}
