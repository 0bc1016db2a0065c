//go:build linux

package stdio_test

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// person is a terminal with a simulated user.
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
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
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
