//go:build linux

package unixpeer_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// These tests start their own binary for every process. An environment variable selects
// what the process does.
const (
	modeVar   = "UNIXPEER_MODE"
	socketVar = "UNIXPEER_SOCKET"
)

func TestMain(m *testing.M) {
	modes := map[string]func(socket string) error{"connect": childConnect, "stay": childStay, "hand over": childHandOver, "hold": childHold, "agent": childAgent, "reuse": childReuse, "judge": childJudge}
	mode := os.Getenv(modeVar)
	if mode == "" {
		os.Exit(m.Run())
	}
	run, ok := modes[mode]
	if !ok {
		fmt.Println("no mode", mode)
		os.Exit(2)
	}
	if err := run(os.Getenv(socketVar)); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childConnect connects and stays until its standard input ends.
func childConnect(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	fmt.Println("connected")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, c.Close())
}

// childStay connects and stays until it is killed.
func childStay(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c)
	return err
}

// childHandOver connects, starts a process that inherits the connection, and stays
// until its standard input ends.
func childHandOver(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	f, err := c.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	heir := exec.Command("/proc/self/exe")
	heir.Env, heir.ExtraFiles = []string{modeVar + "=hold"}, []*os.File{f}
	if err := heir.Start(); err != nil {
		return err
	}
	fmt.Println("connected")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// childHold writes to the descriptor that it inherited, when its input requests it.
func childHold(string) error {
	f := os.NewFile(3, "inherited")
	b := make([]byte, 1)
	for {
		if _, err := f.Read(b); err != nil {
			return nil
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
}

// child is a process that this test started.
type child struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	done chan struct{}
}

// start starts the test's binary in a mode, behind prefix when there is one.
func start(t testing.TB, mode, socket string, prefix ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(prefix, self)
	return run(t, exec.Command(args[0], args[1:]...), mode, socket)
}

func run(t testing.TB, cmd *exec.Cmd, mode, socket string) *child {
	t.Helper()
	cmd.Env = append(cmd.Env, modeVar+"="+mode, socketVar+"="+socket, "PATH="+os.Getenv("PATH"))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewReader(r), done: make(chan struct{})}
	go func() { defer close(c.done); _ = cmd.Wait() }()
	t.Cleanup(func() { c.kill(); _ = r.Close() })
	return c
}

// says reads a line of the child and compares it.
func (c *child) says(want string) {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if strings.TrimSpace(line) != want {
		c.t.Fatalf("the child says %q (%v), want %q", line, err, want)
	}
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// listener listens on a unix socket for the child processes.
type listener struct {
	t    testing.TB
	path string
	l    *net.UnixListener
}

func newListener(t testing.TB) *listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	// For processes that are not root in their sandbox.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	return &listener{t, path, l}
}

// accept returns the next connection and the peer that the kernel reports for it.
func (d *listener) accept() (*net.UnixConn, *attest.Peer) {
	d.t.Helper()
	if err := d.l.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		d.t.Fatal(err)
	}
	c, err := d.l.AcceptUnix()
	if err != nil {
		d.t.Fatal(err)
	}
	p, err := peerOf(c)
	if errors.Is(err, unix.ENOPROTOOPT) {
		counterpart.Missing(d.t, "peer-pidfd", "SO_PEERPIDFD needs Linux 6.5")
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = unix.Close(p.PIDFD); _ = c.Close() })
	return c, p
}

func peerOf(c *net.UnixConn) (*attest.Peer, error) {
	f, err := c.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cred, err := unix.GetsockoptUcred(int(f.Fd()), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, err
	}
	pidfd, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	return &attest.Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid, PIDFD: pidfd}, err
}

// evidence starts a process that connects, and returns its evidence.
func (d *listener) evidence(prefix ...string) (attest.Evidence, *child) {
	d.t.Helper()
	c := start(d.t, "connect", d.path, prefix...)
	_, p := d.accept()
	return of(p), c
}

func of(p *attest.Peer) attest.Evidence {
	return attest.Evidence{Attestor: "box", Channel: attest.Channel{RemoteAddr: "/run/ebb/ebb.sock", Peer: p}}
}
