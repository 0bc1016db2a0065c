package attesttest

import (
	"net"
	"sync/atomic"
	"testing"
)

// Trap is a listener that nobody has reason to connect to.
type Trap struct {
	// URL is http, on loopback.
	URL   string
	dials atomic.Int64
}

// NewTrap listens until the test ends.
func NewTrap(t testing.TB) *Trap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	trap := &Trap{URL: "http://" + l.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			trap.dials.Add(1)
			c.Close() //nolint:errcheck // nothing was sent
		}
	}()
	t.Cleanup(func() {
		l.Close() //nolint:errcheck // the test is over
		<-done
	})
	return trap
}

// Dials is how many connections were made.
func (t *Trap) Dials() int { return int(t.dials.Load()) }
