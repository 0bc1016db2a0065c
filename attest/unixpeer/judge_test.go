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

	"ebb/attest"
	"ebb/attest/unixpeer"
	"ebb/broker/brokertest/counterpart"
)

// TestUnprivileged: an ebb that may not look at the namespaces of another user's
// process cannot judge by them, and can by what everybody sees.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		counterpart.Missing(t, "root", "only root starts processes of other users")
	}
	dir := filepath.Dir(newDoor(t).path)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe") // that of go test is in a directory of root's
	if err != nil {
		t.Fatal(err)
	}
	ebb := filepath.Join(dir, "ebb")
	if err := os.WriteFile(ebb, self, 0o755); err != nil {
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

// childJudge is an ebb that judges the first process that connects.
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
