//go:build linux

package watchdog

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patient is the longest wait of a test for an event that must happen.
const patient = 2 * time.Minute

// TestMain is also the watchdog, and a runner to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "shim":
		if err := Run(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "runner":
		runner(os.Args[2])
	}
	os.Exit(m.Run())
}

// runner starts a watchdog for a process, prints its PID, and starts a process
// that outlives itself.
func runner(number string) {
	pid, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	w, err := Start(binary("/proc/self/exe"), pidfd(pid), func() {})
	if err != nil {
		panic(err)
	}
	other := exec.Command("cat")
	other.Stdin, other.SysProcAttr = os.Stdin, &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		panic(err)
	}
	fmt.Println(w.cmd.Process.Pid)
	time.Sleep(time.Hour)
}

// binary opens a copy of the test binary like the program of a sandbox:
// executable and not readable.
func binary(path string) *os.File {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), path)
}

// pidfd returns a pidfd of a child process.
func pidfd(pid int) *os.File {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// target is a process that runs until it is killed.
func target(t *testing.T) (pid int, ended chan error) {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd.Process.Pid, ended
}

// TestKilledRunner: (E102) signals of an orderly stop to the runner's group or
// to the watchdog have no effect; the end of the runner kills the process, also
// while its children continue.
//
//ebb:invariant I6 A Docker sandbox ends when its runner ends, even if the command has stopped the shim
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	pid, ended := target(t)
	cmd := exec.Command("/proc/self/exe", "runner", strconv.Itoa(pid))
	cmd.SysProcAttr, cmd.Stderr = &syscall.SysProcAttr{Setpgid: true}, os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = cmd.Process.Kill(), in.Close(), cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dog, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range deaf {
		if err := unix.Kill(dog, sig.(syscall.Signal)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		t.Fatal("it has ended before the runner: ", err)
	default:
	}
	if err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || err.Error() != "signal: killed" {
			t.Errorf("the process ended: %v", err)
		}
	case <-time.After(patient):
		t.Fatal("the process goes on")
	}
}

// started is a watchdog of this process, and a channel that reports its end.
func started(t *testing.T, pid int) (*Watchdog, chan struct{}) {
	t.Helper()
	fd, self := pidfd(pid), binary("/proc/self/exe")
	defer fd.Close()
	defer self.Close()
	lost := make(chan struct{})
	w, err := Start(self, fd, func() { close(lost) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, lost
}

// TestEnds: the watchdog ends with its process; if the watchdog ends first the
// process continues, and lost is called.
func TestEnds(t *testing.T) {
	t.Parallel()
	pid, ended := target(t)
	_, lost := started(t, pid)
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lost:
	case <-time.After(patient):
		t.Fatal("the watchdog outlives its process")
	}
	if err := <-ended; err == nil || err.Error() != "signal: terminated" {
		t.Error(err)
	}
	pid, ended = target(t)
	w, lost := started(t, pid)
	w.Close()
	<-lost
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the end of a watchdog is that of its process: %v", err)
	}
}

// TestNumbers: the watchdog starts with any number of the pidfd's descriptor in
// this process, and closes the descriptor of its own program after the start.
func TestNumbers(t *testing.T) {
	t.Parallel()
	pid, _ := target(t)
	fd, self := pidfd(pid), binary("/proc/self/exe")
	defer fd.Close()
	defer self.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for least := range 32 {
		at, err := unix.FcntlInt(fd.Fd(), unix.F_DUPFD_CLOEXEC, least)
		if err != nil {
			t.Fatal(err)
		}
		again := os.NewFile(uintptr(at), "pidfd")
		w, err := Start(self, again, func() {})
		if err != nil {
			t.Fatalf("descriptor %d: %v", at, err)
		}
		if all := descriptors(t, w.cmd.Process.Pid); slices.Contains(all, exe) {
			t.Errorf("descriptor %d: the watchdog has %q", at, all)
		}
		w.Close()
		_ = again.Close()
	}
}

// descriptors returns the files of a process's descriptors.
func descriptors(t *testing.T, pid int) (to []string) {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, fd := range all {
		path, err := os.Readlink(fd)
		if err != nil {
			t.Fatal(err)
		}
		to = append(to, path)
	}
	return to
}

// TestNoWatchdog: a watchdog that does not start is an error, and one without a
// process to watch does not start.
func TestNoWatchdog(t *testing.T) {
	t.Parallel()
	pid, _ := target(t)
	fd := pidfd(pid)
	defer fd.Close()
	for _, path := range []string{os.DevNull, "/bin/false", "/bin/true"} {
		self := binary(path)
		defer self.Close()
		if _, err := Start(self, fd, func() { t.Error("lost what never was") }); err == nil {
			t.Errorf("%s is a watchdog", path)
		}
	}
	self := binary("/proc/self/exe")
	defer self.Close()
	none, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if _, err := Start(self, none, func() { t.Error("lost what never was") }); err == nil {
		t.Error("a file is watched")
	}
	cmd := exec.Command(self.Name(), "shim", "--watchdog") // started directly
	out, err := cmd.Output()
	if err == nil || len(out) > 0 {
		t.Errorf("nothing is watched: %q, %v", out, err)
	}
}

// TestTheBinaryIsHeld: the checked file is executed, even if its path was
// replaced.
//
//ebb:invariant I6 The watchdog of a Docker sandbox executes the binary that was checked, even if another file has replaced it at its path
func TestTheBinaryIsHeld(t *testing.T) {
	t.Parallel()
	pid, _ := target(t)
	fd := pidfd(pid)
	defer fd.Close()
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ebb")
	syscall.ForkLock.RLock() // a child that another test forks meanwhile would have the file open for writing, so that it cannot be executed (golang/go#22315)
	err = os.WriteFile(path, text, 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	self := binary(path)
	defer self.Close()
	if err := errors.Join(os.WriteFile(path+"2", []byte("#!/bin/sh\necho up\n"), 0o700), os.Rename(path+"2", path)); err != nil {
		t.Fatal(err)
	}
	w, err := Start(self, fd, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	runs, err := os.Stat("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/exe")
	if err != nil {
		t.Fatal(err)
	}
	if held, err := os.Stat("/proc/self/fd/" + strconv.Itoa(int(self.Fd()))); err != nil || !os.SameFile(held, runs) {
		t.Errorf("something else is executed: %v", err)
	}
}
