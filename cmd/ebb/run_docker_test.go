package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// static builds an ebb that runs in any image, once for all tests.
var static = sync.OnceValues(func() (string, error) {
	bin, err := build()
	if err != nil {
		return "", err
	}
	bin = filepath.Join(filepath.Dir(bin), "static", "ebb")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return bin, nil
})

// dockerBed is an ebb whose sandboxes are created by a Docker daemon.
type dockerBed struct {
	*outBed
	host string
}

func newDockerBed(t *testing.T) *dockerBed {
	t.Helper()
	return newOutBed(t).docker(t)
}

// docker makes the bed use a Docker daemon.
func (o *outBed) docker(t *testing.T) *dockerBed {
	t.Helper()
	b := &dockerBed{outBed: o, host: counterpart.Need(t, "EBB_TEST_DOCKER")}
	bin, err := static()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(filepath.Dir(bin)), filepath.Dir(bin)} {
		if err := os.Chmod(dir, 0o755); err != nil { // the sandbox runs as another user
			t.Fatal(err)
		}
	}
	b.bin = bin
	return b
}

// sandboxed is a command that runs a script in a sandbox.
func (b *dockerBed) sandboxed(script string, flags ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	return b.run(script, append([]string{"--scope", "shop:**:*", "--env", "HOST=" + b.outBed.host}, flags...)...)
}

// run is sandboxed with the flags of the test.
func (b *dockerBed) run(script string, flags ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	cmd = b.ebb(append(append([]string{"run", "--sandbox", "docker", "--image", "ebb-bed"}, flags...), "--", "sh", "-c", script)...)
	cmd.Env = append(cmd.Env, "DOCKER_HOST="+b.host)
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, errs
	return cmd, out, errs
}

// docker runs the Docker client and returns its output.
func (b *dockerBed) docker(args ...string) (string, error) {
	text, err := exec.Command("docker", append([]string{"--host", b.host}, args...)...).CombinedOutput()
	return string(text), err
}

// inWork waits for a file that the sandbox writes to the work directory.
func (b *dockerBed) inWork(name string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(b.work, name)); err == nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("never: %s", name)
		}
	}
}

// TestRunDocker: (E119) a Docker sandbox has a placeholder, requests
// credentials, and resolves hosts by name; its exit code and streams are those
// of any sandbox. Invalid images and flags are refused.
func TestRunDocker(t *testing.T) {
	t.Parallel()
	b := newDockerBed(t)
	b.serve()
	b.put()
	cmd, out, errs := b.sandboxed(`nc -w 30 ${HOST%:*} ${HOST#*:} </dev/null && echo reached; echo "$KEY"; ebb token --scope shop:orders:read >/dev/null && echo asked; cat >&2; env; exit 7`,
		"--credential", "KEY=shop:orders:read", "--host", b.outBed.host, "--memory", "64M", "--cpus", "0.5")
	cmd.Stdin = strings.NewReader("from outside")
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.HasPrefix(out.String(), "reached\nebb-placeholder.") || !strings.Contains(out.String(), "\nasked\n") || !strings.Contains(errs.String(), "from outside") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if strings.Contains(out.String()+errs.String(), "canary") {
		t.Errorf("the secret is in\n%s%s", out, errs)
	}
	for _, flags := range [][]string{{"--image", "--privileged"}, {"--image", "-v/:/x"}, {"--image", ""}, {"--image", "a\nb"}, {"--sandbox", "bwrap"}, {"--sandbox", "none"}} {
		cmd, out, errs := b.sandboxed("echo ran", flags...)
		if _ = cmd.Run(); cmd.ProcessState.ExitCode() != int(exitUsage) || out.Len() > 0 {
			t.Errorf("%q: exit code %d\n%s%s", flags, cmd.ProcessState.ExitCode(), out, errs)
		}
	}
}

// TestRunDockerIdentity: (E102, E105) the socket of a sandbox serves the
// sandbox and no other container that has it (wrong_box), and the audit log has
// an entry about the foreign process. No process outlives an ebb run that was
// killed.
//
//ebb:invariant I6 The egress socket of a sandbox serves no other container into which the socket is mounted
func TestRunDockerIdentity(t *testing.T) {
	t.Parallel()
	b := newDockerBed(t)
	b.serve()
	b.put()
	cmd, out, errs := b.sandboxed(`printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' $HOST $HOST | nc -w 30 127.0.0.1 3128 | head -n 1 >mine; echo >up; sleep 600`, "--name", "orphan", "--heartbeat", "15s")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	b.inWork("up")
	if mine, err := os.ReadFile(filepath.Join(b.work, "mine")); err != nil || !strings.HasPrefix(string(mine), "HTTP/1.1 200") {
		t.Errorf("the sandbox hears %q, %v", mine, err)
	}
	// The runner's socket, which is mounted into the sandbox; ebb's own socket is
	// in no sandbox.
	sockets, err := filepath.Glob(filepath.Join(b.home, ".local", "share", "ebb", "runs", "*", "*", "out"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets: %q, %v", sockets, err)
	}
	// Another container with the same socket, as root: a program of this machine
	// that connects to it.
	said, err := b.docker("run", "--rm", "--network", "none", "-v", filepath.Dir(sockets[0])+":/out", "-v", "/usr:/usr:ro", "-v", "/lib:/lib:ro", "-v", "/lib64:/lib64:ro", "ebb-bed",
		"/usr/bin/curl", "-sS", "-m", "60", "--unix-socket", "/out/out", "http://"+b.outBed.host+"/v1/stolen")
	if err == nil || !strings.Contains(said, "curl: (") {
		t.Errorf("another container: %s, %v", said, err)
	}
	if list := b.must(b.ebb("audit", "list", "-o", "csv")); !strings.Contains(list, "box.stranger") {
		t.Errorf("the record says\n%s", list)
	}
	// unshare has executed ebb, so this kills the runner itself.
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		boxes, _ := b.docker("ps", "--all", "--quiet", "--filter", "label=ebb.sandbox.keep", "--filter", "volume="+b.work)
		tasks := b.must(b.ebb("task", "list", "-o", "csv"))
		if strings.TrimSpace(boxes) == "" && strings.Contains(tasks, ",closed,orphan") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left: %s\n%s\n%s%s", boxes, tasks, out, errs)
		}
	}
}
