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

	"ebb/attest"
	"ebb/attest/attesttest"
	"ebb/attest/unixpeer"
	"ebb/broker/brokertest/counterpart"
)

// TestReuse makes a process of its own process namespace, where the number of a
// dead one can be given to another.
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
	c := run(t, cmd, "reuse", newDoor(t).path+"2")
	line, err := c.out.ReadString('\n')
	switch {
	case line == "no ns_last_pid\n":
		counterpart.Missing(t, "pid-choice", "this kernel does not let anybody choose numbers of processes")
	case line != "refused\n":
		t.Errorf("got %q, %v", line, err)
	}
}

// childReuse is ebb, alone in its process namespace: a process connects and dies,
// and another gets its number.
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
	if _, err := a.Attest(context.Background(), of(p)); attesttest.Reason(err) != attest.ReasonDead {
		return fmt.Errorf("the successor of pid %d: %w", p.PID, err)
	}
	death, err := a.Watch(context.Background(), onRecord(id))
	if err != nil || death.How != "process_exited" {
		return fmt.Errorf("watching the successor: %+v, %w", death, err)
	}
	fmt.Println("refused")
	return nil
}

// successor is a process that got the number of one that started at another time.
// The runtime's threads take numbers too, so it may need some attempts.
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
			return cmd, r.Close() // w stays open: the process stays
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_, _ = r.Close(), w.Close()
	}
	return nil, fmt.Errorf("no process got the number %d", pid)
}
