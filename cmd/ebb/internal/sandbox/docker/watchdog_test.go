//go:build linux

package docker_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
)

// sandboxesOf lists the containers of a run, including ended ones.
func (b *bed) sandboxesOf(keep string) string {
	return b.docker("ps", "--all", "--quiet", "--filter", "label=ebb.sandbox.keep="+keep)
}

// TestKilledRunner: (E102, E103) no process of a sandbox outlives its runner.
// If the runner is not root the command can stop the shim, but the sandbox ends
// all the same.
//
//ebb:invariant I6 A Docker sandbox ends when its runner ends, even if the command has stopped the shim
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"left behind": {"sh", "-c", "setsid sleep 600 & echo up; sleep 602"}, "the shim is stopped": {sandbox.Self, "try", "stop-shim", "stay"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			work, keep, user := b.another(t)
			cmd := exec.Command(b.kind.Self, append([]string{"runner", work, keep}, argv...)...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr, cmd.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Credential: user}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			t.Log(line) // the kernel may allow no tracing (Yama), so that stopping the shim fails
			if b.sandboxesOf(keep) == "" {
				t.Fatal("no sandbox is labelled")
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			sandboxtest.Until(t, "the sandbox is gone", func() bool { return b.sandboxesOf(keep) == "" })
		})
	}
}

// another is a user other than root that runs sandboxes; nil = the user of the
// tests.
func (b *bed) another(t *testing.T) (work, keep string, user *syscall.Credential) {
	t.Helper()
	if b.Spec.User == nil {
		return b.Spec.Work, t.TempDir(), nil
	}
	top, err := os.MkdirTemp("", "ebb-docker-") // accessible to that user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	work, keep = filepath.Join(top, "work"), filepath.Join(top, "keep")
	info, err := os.Stat(strings.TrimPrefix(b.kind.Host, "unix://"))
	if err := errors.Join(err, os.Chmod(top, 0o755)); err != nil {
		t.Fatal(err)
	}
	user = &syscall.Credential{Uid: b.Spec.User.UID, Gid: b.Spec.User.GID, Groups: []uint32{info.Sys().(*syscall.Stat_t).Gid}} // the group that may use the daemon
	for _, dir := range []string{work, keep} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, int(user.Uid), int(user.Gid))); err != nil {
			t.Fatal(err)
		}
	}
	return work, keep, user
}

// watchdogs lists the watchdog processes of a process.
func watchdogs(t *testing.T, pid int) (found []int) {
	t.Helper()
	for _, one := range sandboxtest.Processes(t, "--watchdog") {
		var number int
		if _, err := fmt.Sscanf(one, "/proc/%d/", &number); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/3", number))
		if err == nil && strings.Contains(string(text), fmt.Sprintf("\nPid:\t%d\n", pid)) {
			found = append(found, number)
		}
	}
	return found
}

// TestWatchdog: a sandbox has a watchdog that ends with it, and the sandbox
// ends if the watchdog does.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var known sandbox.Identity
	b.Spec.Ready = func(id sandbox.Identity) error { known = id; return nil }
	b.Sh("true")
	if left := watchdogs(t, known.PID); len(left) > 0 {
		t.Errorf("watchdogs are left: %d", left)
	}
	r := b.Start("sleep", "600")
	dogs := watchdogs(t, known.PID)
	if len(dogs) != 1 {
		t.Fatalf("watchdogs: %d", dogs)
	}
	if err := syscall.Kill(dogs[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := r.End(); code != 137 {
		t.Errorf("exit code %d", code)
	}
}

// TestNoWatchdog: a sandbox whose watchdog cannot start is not created, and
// gets no command.
//
//ebb:invariant I6 A Docker sandbox does not start without a watchdog, and is killed when its watchdog ends
func TestNoWatchdog(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Argv, b.Spec.Keep = []string{"touch", sandbox.WorkDir + "/ran"}, t.TempDir()
	b.kind.Self = filepath.Join(t.TempDir(), "self")
	copied(t, b.kind.Self)
	wait := filepath.Join(b.Spec.Work, "wait")
	if err := os.WriteFile(wait, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := keeping{t, b.kind}.Start(b.Spec)
		made <- err
	}()
	sandboxtest.Until(t, "the container is there", func() bool {
		return b.docker("ps", "--quiet", "--filter", "label=ebb.sandbox.keep="+b.Spec.Keep) != ""
	})
	// The shim that the container already runs continues. From now on its file
	// cannot be executed.
	if err := errors.Join(os.Chmod(b.kind.Self, 0o600), os.Remove(wait)); err != nil {
		t.Fatal(err)
	}
	if err := <-made; !errors.Is(err, sandbox.ErrNone) || !strings.Contains(err.Error(), "watchdog") {
		t.Errorf("got %v", err)
	}
	if exists(filepath.Join(b.Spec.Work, "ran")) {
		t.Error("it ran")
	}
	if left := b.sandboxesOf(b.Spec.Keep); left != "" {
		t.Errorf("left: %s", left)
	}
}

// copied copies the test binary to a path of its own.
func copied(t *testing.T, to string) {
	t.Helper()
	self, err := static()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
