//go:build linux

package docker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// patience is the timeout of one call of the daemon.
const patience = time.Minute

// client is the program docker and the daemon that it calls.
type client struct {
	program string
	host    string
	keep    string   // a directory of this run
	env     []string // without the user's configuration: its proxies and the like are not for sandboxes
}

// client finds the daemon, which must be on this machine.
func (k Kind) client(keep string) (*client, error) {
	program, err := exec.LookPath(cmp.Or(k.Program, "docker"))
	if err != nil {
		return nil, fmt.Errorf("the Docker client is not installed: %w", err)
	}
	c := &client{program: program, keep: keep, host: k.Host, env: os.Environ()}
	if c.host == "" {
		text, err := c.say("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
		if err != nil {
			return nil, err
		}
		c.host = strings.TrimSpace(text)
	}
	if !strings.HasPrefix(c.host, "unix:///") {
		return nil, fmt.Errorf("the Docker daemon at %q is not on this machine, so the processes of the sandbox cannot be identified", c.host)
	}
	config := filepath.Join(keep, "docker")
	if err := os.Mkdir(config, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	c.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + config, "DOCKER_CONFIG=" + config, "DOCKER_HOST=" + c.host}
	return c, nil
}

// command returns a command of the client, in a session of its own, so that
// keys pressed at the runner's terminal do not reach it.
func (c *client) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env, cmd.Dir = c.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// say runs a command and returns its output.
func (c *client) say(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := c.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, shown(errs.Bytes()))
	}
	return out.String(), nil
}

func (c *client) json(into any, args ...string) error {
	text, err := c.say(args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("docker %s: %w", args[0], err)
	}
	return nil
}

// maxShown is the maximum number of bytes of docker's output in an error.
const maxShown = 1000

// shown returns docker's output in one line of at most maxShown bytes, without
// control characters.
func shown(text []byte) string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(text[:min(len(text), maxShown)]), "?")), " ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, line)
}

// upPatience is how long a container may take to start.
const upPatience = 2 * time.Minute

// called waits for the shim's connection, and accepts only one.
func (r *running) called(l *net.UnixListener) (*net.UnixConn, error) {
	type call struct {
		conn *net.UnixConn
		err  error
	}
	calls := make(chan call, 1)
	go func() {
		_ = l.SetDeadline(time.Now().Add(upPatience))
		conn, err := l.AcceptUnix()
		_ = l.Close() // removes the socket
		calls <- call{conn, err}
	}()
	select {
	case c := <-calls:
		if c.err != nil {
			return nil, fmt.Errorf("%w: the container did not connect within 2m0s; check that the Docker daemon runs on this machine: %s", sandbox.ErrNone, r.said.text())
		}
		return c.conn, nil
	case err := <-r.ended:
		r.ended <- err
		_ = l.Close()
		if c := <-calls; c.conn != nil {
			_ = c.conn.Close()
		}
		return nil, fmt.Errorf("%w: docker created no container: %s", sandbox.ErrNone, r.said.text())
	}
}

// callerOf returns the process that connected, held by a pidfd.
func callerOf(c *net.UnixConn) (*os.Process, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var process *os.Process
	if cerr := raw.Control(func(fd uintptr) { process, err = peerOf(int(fd)) }); cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, fmt.Errorf("%w: get the first process of the sandbox: %w", sandbox.ErrNone, err)
	}
	return process, nil
}

// peerOf returns the process at the other end of a socket. The kernel reports
// its PID, which may be reused before it is looked up. Since Linux 6.5 the
// kernel also returns a pidfd: if that process still lives after the lookup,
// its PID was not reused.
func peerOf(socket int) (*os.Process, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, err
	}
	if cred.Pid <= 1 {
		return nil, fmt.Errorf("the peer's PID is %d, which is not a process of another PID namespace", cred.Pid)
	}
	pidfd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return os.FindProcess(int(cred.Pid))
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(pidfd)
	unix.CloseOnExec(pidfd)
	process, err := os.FindProcess(int(cred.Pid))
	if err != nil {
		return nil, err
	}
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) { // EPERM: the process lives and belongs to another user
		return nil, errors.Join(err, process.Release())
	}
	return process, nil
}
