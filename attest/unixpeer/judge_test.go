//go:build linux

package unixpeer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestUnprivileged checks that an ebb without permission to read the namespaces of
// another user's process returns an error when they are required, and judges by facts
// that every user can read.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		counterpart.Missing(t, "root", "only root starts processes of other users")
	}
	dir := filepath.Dir(newListener(t).path)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe") // go test keeps it in a directory that only root can read
	if err != nil {
		t.Fatal(err)
	}
	ebb := filepath.Join(dir, "ebb")
	syscall.ForkLock.RLock() // a child of another test would inherit the open file, which then cannot be executed
	err = os.WriteFile(ebb, self, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "other")
	cmd := exec.Command(ebb)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c := run(t, cmd, "judge", socket)
	c.says("ready")
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.says("netns: cannot judge")
	c.says("pidns: cannot judge")
	c.says("process: judged")
}

// childJudge runs an attestor that judges the first process which connects.
func childJudge(socket string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		return err
	}
	fmt.Println("ready")
	c, err := l.AcceptUnix()
	if err != nil {
		return err
	}
	p, err := peerOf(c)
	if err != nil {
		return err
	}
	for _, r := range []struct {
		name    string
		require []string
	}{{"netns", []string{"netns"}}, {"pidns", []string{"pid", "start_time", "pidns"}}, {"process", []string{"pid", "start_time"}}} {
		a, err := unixpeer.New(unixpeer.Config{Name: "box", Require: r.require})
		if err != nil {
			return err
		}
		_, err = a.Attest(context.Background(), of(p))
		switch {
		case err == nil:
			fmt.Println(r.name + ": judged")
		case errors.Is(err, attest.ErrRejected):
			fmt.Println(r.name+": rejected", err)
		default:
			fmt.Println(r.name + ": cannot judge")
		}
	}
	return nil
}
