//go:build linux

package unixpeer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestReuse runs in a new process namespace, where it can make the kernel reuse the PID
// of a process that has exited.
func TestReuse(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		counterpart.Missing(t, "root", "only root makes process namespaces here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	c := run(t, cmd, "reuse", newListener(t).path+"2")
	line, err := c.out.ReadString('\n')
	switch {
	case line == "no ns_last_pid\n":
		counterpart.Missing(t, "pid-choice", "this kernel does not let anybody choose numbers of processes")
	case line != "refused\n":
		t.Errorf("got %q, %v", line, err)
	}
}

// childReuse is ebb in a process namespace of its own. A process connects and exits, and
// another process gets its PID.
func childReuse(socket string) error {
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, "")); err != nil {
		return err
	}
	if _, err := os.Stat("/proc/sys/kernel/ns_last_pid"); err != nil {
		fmt.Println("no ns_last_pid")
		return nil
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	a, err := unixpeer.New(unixpeer.Config{Name: "box", Require: []string{"pid", "start_time"}})
	if err != nil {
		return err
	}
	first := exec.Command("/proc/self/exe")
	first.Env = []string{modeVar + "=connect", socketVar + "=" + socket}
	if _, err := first.StdinPipe(); err != nil {
		return err
	}
	if err := first.Start(); err != nil {
		return err
	}
	c, err := l.AcceptUnix()
	if err != nil {
		return err
	}
	p, err := peerOf(c)
	if err != nil {
		return err
	}
	id, err := a.Attest(context.Background(), of(p))
	if err != nil {
		return err
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	second, err := successor(p.PID, id.Selectors["start_time"])
	if err != nil {
		return err
	}
	defer second.Process.Kill() //nolint:errcheck // the namespace ends with this process
	if _, err := a.Attest(context.Background(), of(p)); attesttest.Reason(err) != attest.ReasonExited {
		return fmt.Errorf("the successor of pid %d: %w", p.PID, err)
	}
	exit, err := a.Watch(context.Background(), stored(id))
	if err != nil || exit.How != "process_exited" {
		return fmt.Errorf("watching the successor: %+v, %w", exit, err)
	}
	fmt.Println("refused")
	return nil
}

// successor starts a process that gets the PID of a process with another start time.
// Threads of the Go runtime take PIDs too, so it may need several attempts.
func successor(pid int, start string) (*exec.Cmd, error) {
	for range 10_000 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{modeVar + "=hold"}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.ExtraFiles = []*os.File{r}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
		if err == nil && cmd.Process.Pid == pid && startOf(stat) != start {
			return cmd, r.Close() // w stays open, so the process keeps running
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_, _ = r.Close(), w.Close()
	}
	return nil, fmt.Errorf("no process got the number %d", pid)
}
