package attesttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
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

// hostile returns invalid documents derived from a valid one, by name. For a kind that
// judges only the channel, whose valid document is empty, it returns non-empty ones.
func hostile(good []byte) map[string][]byte {
	if len(good) == 0 {
		out := hostile([]byte("."))
		maps.DeleteFunc(out, func(_ string, doc []byte) bool { return len(doc) == 0 })
		return out
	}
	half := len(good) / 2
	out := map[string][]byte{
		"nil":                nil,
		"empty":              {},
		"NUL":                {0},
		"blank":              []byte(" "),
		"garbage":            []byte("garbage"),
		"dots":               []byte(".."),
		"braces":             []byte("{}"),
		"not UTF-8":          []byte("\xff\xfe.\xff.\xff"),
		"first half":         good[:half],
		"last half":          good[half:],
		"without last byte":  good[:len(good)-1],
		"twice":              slices.Concat(good, good),
		"comma list":         slices.Concat(good, []byte(","), good),
		"leading blank":      slices.Concat([]byte(" "), good),
		"trailing newline":   slices.Concat(good, []byte("\n")),
		"trailing NUL":       slices.Concat(good, []byte{0}),
		"padding":            slices.Concat(good, []byte("=")),
		"Bearer":             slices.Concat([]byte("Bearer "), good),
		"upper case":         bytes.ToUpper(good),
		"deep nesting":       bytes.Repeat([]byte("["), 10_000),
		"oversized by one":   slices.Concat(good, bytes.Repeat([]byte("A"), attest.MaxDocument+1-len(good))),
		"oversized, 1 MiB":   bytes.Repeat([]byte("A"), 1<<20),
		"oversized, dots":    bytes.Repeat([]byte("."), 1<<20),
		"oversized, newline": slices.Concat(good, bytes.Repeat([]byte("\n"), 1<<20)),
	}
	// One changed byte at 64 places. Each changed byte is in the base64url alphabet, so
	// that the kind has to check the content and not only the encoding.
	for i := range 64 {
		at := i * (len(good) - 1) / 63
		doc := slices.Clone(good)
		if doc[at] == 'A' {
			doc[at] = 'Q'
		} else {
			doc[at] = 'A'
		}
		out[fmt.Sprintf("byte %d changed", at)] = doc
	}
	return out
}
