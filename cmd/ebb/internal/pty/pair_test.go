//go:build linux

package pty_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ebb/cmd/ebb/internal/pty"
)

// person is a terminal with somebody at it.
type person struct {
	screen, terminal *os.File

	mu   sync.Mutex
	seen bytes.Buffer
}

func newPerson(t *testing.T) *person {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	inner, err := os.OpenFile("/dev/pts/"+strconv.Itoa(int(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 99}); err != nil {
		t.Fatal(err)
	}
	p := &person{screen: screen, terminal: inner}
	t.Cleanup(func() { _ = inner.Close() })
	go func() {
		part := make([]byte, 1024)
		for {
			n, err := screen.Read(part)
			p.mu.Lock()
			p.seen.Write(part[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *person) until(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		is := strings.Contains(p.seen.String(), text)
		p.mu.Unlock()
		if is {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Fatalf("the person never sees %q in %q", text, p.seen.String())
}

func (p *person) types(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p.screen, text); err != nil {
		t.Fatal(err)
	}
}

// TestPair: the command has a terminal of the person's size, what is typed reaches it as at
// a terminal, and what it does to its own is not done to the person's.
func TestPair(t *testing.T) {
	t.Parallel()
	who := newPerson(t)
	if !pty.Is(who.terminal) {
		t.Fatal("a terminal is none")
	}
	before, err := unix.IoctlGetTermios(int(who.terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pty.Open(who.terminal, who.terminal)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `stty size; read -r x; echo "got $x"; stty -echo; trap 'echo interrupted; stty size; exit 4' INT; echo wait; while :; do sleep 0.05; done`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Inner, p.Inner, p.Inner
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.Join(); err != nil {
		t.Fatal(err)
	}
	who.until(t, "33 99")
	who.types(t, "hello\r")
	who.until(t, "got hello")
	who.until(t, "wait")
	if err := unix.IoctlSetWinsize(int(who.screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 44, Col: 88}); err != nil {
		t.Fatal(err)
	}
	p.Resize()
	who.types(t, "\x03") // for the command, not for this test
	who.until(t, "interrupted")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("the command: %v", err)
	}
	p.Close()
	who.until(t, "44 88") // what it wrote last is there
	after, err := unix.IoctlGetTermios(int(who.terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *after != *before {
		t.Errorf("the person's terminal was\n%+v and is\n%+v", *before, *after)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if pty.Is(null) {
		t.Error(os.DevNull + " is a terminal")
	}
	if _, err := pty.Open(null, null); err == nil {
		t.Error("a terminal like " + os.DevNull)
	}
}
