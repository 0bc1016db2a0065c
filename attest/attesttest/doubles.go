package attesttest

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

// Clock is a clock for tests. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a Clock that stands at a whole second, so that NumericDates are exact.
func NewClock() *Clock { return &Clock{now: time.Unix(1_800_000_000, 0).UTC()} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock to t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Log is an io.Writer that keeps all text. It is safe for concurrent use, and
// its zero value is empty.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ErrBound is the error that attest.Costly returns under Bounded.
var ErrBound = errors.New("attesttest: expensive work is not permitted in this test")

// Bounded returns a context in which attest.Costly always fails with ErrBound, and a
// count of the calls. It is not safe for concurrent use.
func Bounded(ctx context.Context) (bounded context.Context, asked *int) {
	asked = new(int)
	return attest.WithBound(ctx, func(context.Context) (func(), error) {
		*asked++
		return nil, ErrBound
	}), asked
}

// Trap is a listener that counts connections. A correct attestor makes none.
type Trap struct {
	// URL is the http URL of the listener on loopback.
	URL   string
	dials atomic.Int64
}

// NewTrap returns a Trap that listens until the test ends.
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

// Dials returns how many connections were made.
func (t *Trap) Dials() int { return int(t.dials.Load()) }
