//go:build linux

package stdio_test

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/stdio"
)

// start starts a script with streams, like a sandbox.
func start(t *testing.T, s *stdio.Streams, script string) *exec.Cmd {
	t.Helper()
	return startJoin(t, s, script, false)
}

// startJoin starts a command and joins its streams; early: only when the
// command has ended.
func startJoin(t *testing.T, s *stdio.Streams, script string, early bool) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: s.TTY}
	// A nil *os.File in an interface is not a nil interface.
	if s.Stdin != nil {
		cmd.Stdin = s.Stdin
	}
	if s.Stdout != nil {
		cmd.Stdout = s.Stdout
	}
	if s.Stderr != nil {
		cmd.Stderr = s.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if early {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Join(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestTerminal: the command has a terminal of the same size as the user's,
// input reaches it as at a terminal, and its changes to its terminal do not
// affect the user's.
func TestTerminal(t *testing.T) {
	t.Parallel()
	who := newPerson(t)
	before, err := unix.IoctlGetTermios(int(who.terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stdio.Open(who.terminal, who.terminal, who.terminal, nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := start(t, s, `stty size; read -r x; echo "got $x"; stty -echo; trap 'echo interrupted; stty size; exit 4' INT; echo wait; while :; do sleep 0.05; done`)
	who.until(t, "33 99")
	who.types(t, "hello\r")
	who.until(t, "got hello")
	who.until(t, "wait")
	if err := unix.IoctlSetWinsize(int(who.screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 44, Col: 88}); err != nil {
		t.Fatal(err)
	}
	s.Resize()
	who.types(t, "\x03") // for the command, not for this test
	who.until(t, "interrupted")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("the command: %v", err)
	}
	s.Close()
	who.until(t, "44 88") // the last output of the command has arrived
	after, err := unix.IoctlGetTermios(int(who.terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *after != *before {
		t.Errorf("the person's terminal was\n%+v and is\n%+v", *before, *after)
	}
}

// identity is the device and inode of a file, as stat(1) in the script prints
// them.
func identity(t *testing.T, f *os.File) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %d\n", st.Dev, st.Ino)
}

// TestOutputBeforeJoin: the lines that a command writes before its streams are
// joined end like later ones.
func TestOutputBeforeJoin(t *testing.T) {
	t.Parallel()
	who := newPerson(t)
	s, err := stdio.Open(who.terminal, who.terminal, who.terminal, nil)
	if err != nil {
		t.Fatal(err)
	}
	startJoin(t, s, "echo early", true)
	s.Close()
	who.until(t, "early\r\n")
}

// TestNeverThePersons: (E118) whichever of the three streams is a terminal, the
// command gets another.
//
//ebb:invariant I6 A sandbox gets neither the user's terminal nor a file of the user's streams that it could open again
func TestNeverThePersons(t *testing.T) {
	t.Parallel()
	for which := range 8 {
		who := newPerson(t)
		in, out := which&1 != 0, which&2 != 0
		file, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		of := func(terminal bool) *os.File {
			if terminal {
				return who.terminal
			}
			return file
		}
		s, err := stdio.Open(of(in), of(out), of(which&4 != 0), nil)
		if err != nil {
			t.Fatal(err)
		}
		report := filepath.Join(t.TempDir(), "report")
		cmd := start(t, s, `exec 3>`+report+`; for n in 0 1 2; do stat -L -c '%d %i' /proc/$$/fd/$n >&3; test -t $n && echo tty >&3; done; echo written; echo wrong >&2`)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		text, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), identity(t, who.terminal)) || strings.Contains(string(text), identity(t, file)) {
			t.Errorf("%03b: the command has what the person has: %s", which, text)
		}
		if got, want := strings.Count(string(text), "tty\n"), bits.OnesCount(uint(which)); got != want {
			t.Errorf("%03b: %d terminals, want %d: %s", which, got, want, text)
		}
		if out {
			who.until(t, "written\r\n")
		} else if text, _ := os.ReadFile(file.Name()); !strings.Contains(string(text), "written\n") {
			t.Errorf("%03b: the file holds %q", which, text)
		}
		_ = file.Close()
	}
}

// TestPipes: input and output pass completely, and so does their end.
func TestPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) *os.File {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	long := strings.Repeat("0123456789abcdef", 1<<16)
	in, out := write("in", long), write("out", "")
	s, err := stdio.Open(in, out, out, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Stdout != s.Stderr {
		t.Error("one file is two streams, whose order is lost")
	}
	cmd := start(t, s, `cat; echo end >&2; echo hacked 2>/dev/null >/proc/self/fd/0; exit 0`)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if text, err := os.ReadFile(out.Name()); err != nil || string(text) != long+"end\n" {
		t.Errorf("%d bytes came, %v", len(text), err)
	}
	if text, err := os.ReadFile(in.Name()); err != nil || string(text) != long {
		t.Errorf("the input is now %.20q, %v", text, err)
	}
}

// TestNobodyReads: the command gets an error when its reader is gone.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	s, err := stdio.Open(nil, w, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := start(t, s, `exec yes`)
	err = cmd.Wait()
	if ee, is := errors.AsType[*exec.ExitError](err); !is || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
		t.Errorf("%v", err)
	}
	s.Close()
}

// TestCarriedOut: a stream that a process outside of the sandbox has open
// delays nothing.
//
//ebb:invariant I6 Copying the output of a sandbox does not delay its end when a process outside the sandbox keeps a stream open
func TestCarriedOut(t *testing.T) {
	t.Parallel()
	who := newPerson(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []*os.File{w, who.terminal} {
		s, err := stdio.Open(nil, out, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.FcntlInt(s.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := start(t, s, `echo said`).Wait(); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	_ = w.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "said\n" {
		t.Errorf("%q, %v", text, err)
	}
	who.until(t, "said")
}
