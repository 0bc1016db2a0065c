//go:build linux

package bwrap_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
)

// TestReady: Ready gets the sandbox's namespaces before a command runs, and can
// refuse.
//
//ebb:invariant I6 If a new sandbox is refused before its release, all its processes end and its command never starts
func TestReady(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var known sandbox.Identity
	b.Spec.Ready = func(id sandbox.Identity) error {
		known = id
		if seen, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", id.PID)); err != nil || seen != fmt.Sprintf("net:[%d]", id.NetNS) {
			t.Errorf("the machine sees %s, %v", seen, err)
		}
		return nil
	}
	out := b.Sh("readlink /proc/self/ns/net /proc/self/ns/pid")
	if want := fmt.Sprintf("net:[%d]\npid:[%d]\n", known.NetNS, known.PIDNS); out != want {
		t.Errorf("the sandbox is %s, told %s", out, want)
	}
	// A refusal ends everything before Start returns: no process is left that a
	// closed pipe could release.
	no, ran := errors.New("no"), filepath.Join(b.Spec.Work, "ran")
	for range 20 {
		b.Spec.Argv, b.Spec.Ready = []string{"touch", sandbox.WorkDir + "/ran"}, func(id sandbox.Identity) error { known = id; return no }
		if _, err := b.kind.Start(b.Spec); !errors.Is(err, no) {
			t.Fatalf("got %v", err)
		}
		if err := syscall.Kill(known.PID, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("the sandbox's first process is there: %v", err)
		}
		if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("it ran: %v", err)
		}
	}
}

// TestReadyOfADeadSandbox: Start returns after Ready, also if the sandbox ends meanwhile, and the
// command does not run.
func TestReadyOfADeadSandbox(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Argv = []string{"touch", sandbox.WorkDir + "/ran"}
	for range 20 {
		over := false
		b.Spec.Ready = func(id sandbox.Identity) error {
			err := syscall.Kill(id.PID, syscall.SIGKILL)
			for ; err == nil; err = syscall.Kill(id.PID, 0) { // until it was reaped
				time.Sleep(time.Millisecond)
			}
			over = true
			return nil
		}
		r, err := b.kind.Start(b.Spec)
		if !over {
			t.Fatal("Start returned before Ready")
		}
		if err == nil { // the shim had reported before it was killed
			_, err = r.Wait()
		}
		if err == nil {
			t.Error("a dead sandbox ran its command")
		}
		if _, err := os.Stat(filepath.Join(b.Spec.Work, "ran")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("it ran: %v", err)
		}
	}
}

// TestNoSandbox: if no sandbox can be created, no command runs.
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Argv = []string{"touch", sandbox.WorkDir + "/ran"}
	stderr, errs, done := sandboxtest.Reader(t)
	b.Spec.Stderr = stderr
	for _, program := range []string{"/no/such/bwrap", "/bin/false"} {
		b.kind.Program = program
		if _, err := b.kind.Start(b.Spec); !errors.Is(err, sandbox.ErrNone) {
			t.Errorf("%s: %v", program, err)
		}
	}
	done()
	<-errs
	if b.Spec.User != nil {
		b.kind.Program, b.Spec.User = counterpart.Need(t, "EBB_TEST_BWRAP"), nil
		if _, err := b.kind.Start(b.Spec); !errors.Is(err, sandbox.ErrNone) {
			t.Errorf("root as root: %v", err)
		}
	}
}

// TestRelease: the shim starts the command only after the byte. A closed pipe,
// of the runner or of the reports, is not a release.
//
//ebb:invariant I6 The command of a sandbox starts only when its runner releases it, and never because the runner has ended
func TestRelease(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		release  string
		deaf     bool
		runs     bool
		exitCode int
	}{
		"released": {"x", false, true, 0}, "no byte": {"", false, false, 1}, "nobody listens": {"x", true, false, 1},
	} {
		made := filepath.Join(t.TempDir(), "made")
		statusR, statusW, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		releaseR, releaseW, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if tt.deaf {
			_ = statusR.Close()
		}
		cmd := exec.Command(sandboxtest.Self(t), "shim", "--status-fd", "3", "--release-fd", "4", "--processes", "100000", "--files", "64", "--", "touch", made)
		cmd.ExtraFiles = []*os.File{statusW, releaseR}
		cmd.Stderr = new(bytes.Buffer) // Wait waits for every process that has the pipe open
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = releaseW.WriteString(tt.release)
		for _, f := range []*os.File{releaseW, releaseR, statusW} {
			_ = f.Close()
		}
		err = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != tt.exitCode {
			t.Errorf("%s: exit code %d, %v", name, got, err)
		}
		if _, err := os.Stat(made); tt.runs != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		_ = statusR.Close()
	}
}
