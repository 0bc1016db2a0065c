//go:build linux

package docker

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// TestCaller: (E106) the process that connected is held while it runs. The PID
// of one that has ended is unused or belongs to another process.
//
//ebb:invariant I6 The process that the runner tracks and kills is the process that connected, not a later process with the same PID
func TestCaller(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accept := func() (*os.Process, error) {
		c, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return callerOf(c)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := accept()
	if err != nil || p.Pid != os.Getpid() {
		t.Fatalf("%v, %v", p, err)
	}
	if err := p.Release(); err != nil {
		t.Error(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	pidfd, err := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		counterpart.Missing(t, "peer-pidfd", "SO_PEERPIDFD needs Linux 6.5")
	}
	_ = unix.Close(pidfd)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(self, "try", "unix="+path).Output(); err != nil { // the process has ended and was reaped
		t.Fatalf("%v: %s", err, text)
	}
	if p, err := accept(); !errors.Is(err, sandbox.ErrNone) {
		t.Errorf("one that is gone has called: %v, %v", p, err)
	}
}
