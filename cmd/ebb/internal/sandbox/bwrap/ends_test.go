//go:build linux

package bwrap_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137, "exec 1>&-; exit 3": 3} {
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

// TestTraced: a command whose parent traces it (ptrace(2), PTRACE_TRACEME)
// stops at every signal, which is not its end. The shim lets it continue, with
// the signal.
//
//ebb:invariant I6 The shim does not treat a command that is only stopped, for example by tracing, as ended
func TestTraced(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for signal, want := range map[string]string{"SIGWINCH": "alive 7", "SIGSTOP": "alive 7", "SIGTRAP": "alive 7", "SIGTERM": " 143"} {
		code, out, errs := b.Start("python3", "-c", `import ctypes, os, signal
if ctypes.CDLL(None).ptrace(0, 0, 0, 0): raise SystemExit("not traced")
os.kill(os.getpid(), signal.`+signal+`)
print("alive", end="", flush=True)
os._exit(7)`).End()
		if got := fmt.Sprint(out, " ", code); got != want {
			t.Errorf("%s: %q, want %q\n%s", signal, got, want, errs)
		}
	}
}

// TestSignals: the command gets the signals sent to the sandbox, also those
// from before it runs. No process in the sandbox can end the first process.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.Start("sh", "-c", `trap 'echo usr1' USR1; trap 'echo term; exit 42' TERM; kill -KILL 1; kill -TERM 1; echo up >up; while :; do sleep 0.05; done`)
	_ = r.Signal(unix.SIGUSR1) // delivered once the command runs, and kills it if it has no handler yet
	sandboxtest.Until(t, "up, or over", func() bool {
		_, err := os.Stat(filepath.Join(b.Spec.Work, "up"))
		return err == nil || r.Signal(unix.SIGCONT) != nil
	})
	_ = r.Signal(unix.SIGTERM)
	code, out, _ := r.End()
	if code != 42 && code != 128+int(unix.SIGUSR1) || code == 42 && !strings.Contains(out, "term") {
		t.Errorf("exit code %d, %q", code, out)
	}
	r = b.Start("sleep", "600")
	r.Kill()
	if code, _, _ := r.End(); code != 137 {
		t.Errorf("killed: exit code %d", code)
	}
}

// TestOrphans: (E103) orphans are reaped, and processes left when the command
// ends are killed.
func TestOrphans(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	out := b.Sh(`i=0; while [ $i -lt 20 ]; do (sh -c 'sleep 0 & exit' &); i=$((i+1)); done; i=0; while sleep 0.5; n=$(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l); [ $n != 0 ] && [ $i -lt 200 ]; do i=$((i+1)); done; echo $n`)
	if strings.TrimSpace(out) != "0" {
		t.Errorf("%s are not buried", strings.TrimSpace(out))
	}
	word := fmt.Sprintf("603.%d", os.Getpid())
	b.Sh(`setsid sleep ` + word + ` & (setsid nohup setsid sleep ` + word + ` >/dev/null 2>&1 &); sleep 0.2`)
	if left := sandboxtest.Processes(t, word); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

// TestKilledRunner: (E102, E103) no process of a sandbox outlives its runner,
// however it tries to hide.
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	word := strconv.Itoa(os.Getpid())
	args := []string{"runner", word, b.Spec.Work}
	if b.Spec.User != nil {
		args = append(args, strconv.Itoa(int(b.Spec.User.UID)))
	}
	cmd := exec.Command(b.kind.Self, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if text := make([]byte, 3); true {
		if _, err := io.ReadFull(out, text); err != nil || string(text) != "up\n" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	for _, n := range []string{"600.", "601.", "602."} {
		sandboxtest.Until(t, "sleep "+n, func() bool { return len(sandboxtest.Processes(t, n+word)) > 0 })
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "everything is gone", func() bool {
		return len(sandboxtest.Processes(t, "600."+word))+len(sandboxtest.Processes(t, "601."+word))+len(sandboxtest.Processes(t, "602."+word)) == 0
	})
}
