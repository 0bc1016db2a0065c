//go:build linux

package docker_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
)

// TestReady: Ready gets the sandbox's namespaces before a command runs, and can
// refuse.
func TestReady(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var known sandbox.Identity
	b.Spec.Ready = func(id sandbox.Identity) error { known = id; return nil }
	out := b.Sh("readlink /proc/self/ns/net; readlink /proc/self/ns/pid")
	if want := fmt.Sprintf("net:[%d]\npid:[%d]\n", known.NetNS, known.PIDNS); out != want {
		t.Errorf("the sandbox is %s, told %s", out, want)
	}
	no, ran := errors.New("no"), filepath.Join(b.Spec.Work, "ran")
	b.Spec.Argv, b.Spec.Ready = []string{"touch", sandbox.WorkDir + "/ran"}, func(id sandbox.Identity) error { known = id; return no }
	if _, err := b.Kind.Start(b.Spec); !errors.Is(err, no) {
		t.Fatalf("got %v", err)
	}
	if err := syscall.Kill(known.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("the sandbox's first process is there: %v", err)
	}
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("it ran: %v", err)
	}
}

// TestNoSandbox: if no sandbox can be created, no command runs, and the error names
// the cause.
//
//ebb:invariant I6 No program of an image runs before the shim, because a dynamically linked ebb binary is refused
//ebb:invariant I6 A Docker sandbox is created only by a Docker daemon on the same machine
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Argv = []string{"touch", sandbox.WorkDir + "/ran"}
	good := b.kind
	for name, tt := range map[string]struct {
		change func()
		says   string
	}{
		"no client":    {func() { b.kind.Program = "/no/such/docker" }, "not installed"},
		"no daemon":    {func() { b.kind.Host = "unix:///no/such/docker.sock" }, "daemon"},
		"far away":     {func() { b.kind.Host = "ssh://docker.example.com" }, "not on this machine"},
		"by TCP":       {func() { b.kind.Host = "tcp://127.0.0.1:2375" }, "not on this machine"},
		"no image":     {func() { b.kind.Image = "ebb-bed-that-is-not" }, "docker pull ebb-bed-that-is-not"},
		"an option":    {func() { b.kind.Image = "--privileged" }, "not a valid image name"},
		"dynamic":      {func() { b.kind.Self = dynamic(t) }, "CGO_ENABLED=0"},
		"root":         {func() { b.Spec.User = &sandbox.Owner{} }, "user and group other than root"},
		"root's group": {func() { b.Spec.User = &sandbox.Owner{UID: 4242} }, "user and group other than root"},
	} {
		user := b.Spec.User
		tt.change()
		_, err := keeping{t, b.kind}.Start(b.Spec)
		if !errors.Is(err, sandbox.ErrNone) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		b.kind, b.Spec.User = good, user
	}
	if _, err := os.Stat(filepath.Join(b.Spec.Work, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
}

// dynamic is a program that needs a loader.
func dynamic(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSwappedPlace: (E115) the mounted file is the checked one, or no command
// runs.
//
//ebb:invariant I6 Each file mounted into a Docker sandbox is verified to be the file that ebb checked before
func TestSwappedPlace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Between the check and the daemon's mount the client runs; here it replaces
	// the path first.
	swap := filepath.Join(t.TempDir(), "docker")
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = run ]; then mv %[1]s %[1]s.away && ln -s %[2]s %[1]s; fi\nexec docker \"$@\"\n", b.Spec.Work, outside)
	if err := os.WriteFile(swap, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	b.kind.Program = swap
	b.Spec.Argv = []string{"cp", sandbox.WorkDir + "/secret", "/tmp"}
	if _, err := (keeping{t, b.kind}).Start(b.Spec); !errors.Is(err, sandbox.ErrPlace) {
		t.Errorf("got %v", err)
	}
}

// TestImageThatIsNoSandbox: the declarations of an image do not weaken the
// isolation.
//
//ebb:invariant I6 An image name cannot act as a Docker option, and the declarations of an image cannot weaken the isolation of the sandbox
func TestImageThatIsNoSandbox(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	name := "ebb-bed-" + strings.ToLower(rand.Text())
	made := b.docker("create", bedImage, "true")
	b.docker("commit", "--change", "USER 0:0", "--change", `ENTRYPOINT ["/bin/touch","`+sandbox.WorkDir+`/entry"]`, "--change", "VOLUME /data", "--change", "VOLUME /tmp", "--change", "WORKDIR /etc",
		"--change", `HEALTHCHECK --interval=1s CMD touch `+sandbox.WorkDir+`/health`, "--change", "LABEL ebb.sandbox.keep=/nowhere", "--change", "ENV PATH=/evil", made, name)
	b.docker("rm", made)
	t.Cleanup(func() { b.docker("rmi", "--force", name) })
	b.kind.Image = name
	b.Kind, b.Spec.Keep = keeping{t, b.kind}, t.TempDir()
	r := b.Start("sh", "-c", "sleep 2; id -u; pwd; echo $PATH; touch /tmp/x && stat -f -c %T /data; ls; echo >up; while ! test -e end; do sleep 0.1; done")
	sandboxtest.Until(t, "up", func() bool { return exists(filepath.Join(b.Spec.Work, "up")) })
	if has := b.docker("inspect", "--format", "{{range .Mounts}}{{.Type}} {{.Destination}}\n{{end}}", b.sandboxesOf(b.Spec.Keep)); strings.Contains(has, "volume") || !strings.Contains(has, "bind") {
		t.Errorf("the daemon has mounted %s", has)
	}
	if err := os.WriteFile(filepath.Join(b.Spec.Work, "end"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, out, _ := r.End()
	uid := os.Geteuid()
	if b.Spec.User != nil {
		uid = int(b.Spec.User.UID)
	}
	if want := fmt.Sprintf("%d\n%s\n%s\ntmpfs\n", uid, sandbox.WorkDir, sandbox.Search); out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestLeftovers: the next run removes the sandbox of a killed run, and nothing
// that is not ebb's.
//
//ebb:invariant I6 A run removes only containers of the same user's earlier runs that no longer exist
func TestLeftovers(t *testing.T) {
	b := newBed(t)
	gone, here := filepath.Join(t.TempDir(), "gone"), t.TempDir()
	uid := fmt.Sprintf("ebb.sandbox.user=%d", os.Geteuid())
	make := func(prefix, keep, user string) string {
		name := prefix + strings.ToLower(rand.Text())
		b.docker("run", "--detach", "--rm", "--network", "none", "--name", name, "--label", "ebb.sandbox.keep="+keep, "--label", user, bedImage, "sleep", "600")
		t.Cleanup(func() { _ = exec.Command("docker", "--host", b.kind.Host, "rm", "--force", name).Run() })
		return name
	}
	dead := make("ebb-sandbox-", gone, uid)
	kept := []string{
		make("ebb-sandbox-", here, uid), make("ebb-sandbox-", gone, "ebb.sandbox.user=77777"),
		make("somebody-else-", gone, uid), make("ebb-sandbox-", "relative", uid),
	}
	b.Sh("true")
	names := "\n" + b.docker("ps", "--all", "--format", "{{.Names}}") + "\n"
	if strings.Contains(names, "\n"+dead+"\n") {
		t.Errorf("%s is there", dead)
	}
	for _, name := range kept {
		if !strings.Contains(names, "\n"+name+"\n") {
			t.Errorf("%s is gone", name)
		}
	}
}

// TestBounds: the limits in a sandbox are those passed to its daemon.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Limits = sandbox.Limits{Processes: 64, Temporary: 1 << 20, Memory: 64 << 20, CPU: 500}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", sandbox.Home} {
		if out := b.Sh("head -c 4000000 /dev/zero >" + dir + "/x 2>/dev/null; stat -c %s " + dir + "/x"); strings.TrimSpace(out) != "1048576" {
			t.Errorf("%s holds %s", dir, out)
		}
	}
	if how := b.Try("spawn")["spawn"]; !strings.Contains(how, "resource temporarily unavailable") {
		t.Errorf("spawn: %s", how)
	}
	if code, out, errs := b.Start("sh", "-c", `x=x; while :; do x=$x$x; done`).End(); code == 0 {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}
