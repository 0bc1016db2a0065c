package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

// newLogger logs JSON, or text to a terminal, where each line is written at
// once. To a file or a pipe lines are written in batches (see lines); flush
// writes the waiting ones.
func newLogger(w io.Writer, level, format string) (log *slog.Logger, flush func()) {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	person := terminal(w)
	flush = func() {}
	var gathered *lines
	if !person {
		gathered = &lines{to: w}
		w, flush = gathered, gathered.flush
	}
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewJSONHandler(drawnLines{w, true}, opts)
	if format == "text" || format == "auto" && person {
		h = slog.NewTextHandler(drawnLines{w, false}, opts)
	}
	if gathered != nil {
		h = urgent{h, gathered}
	}
	return slog.New(h), flush
}

// terminal reports whether v is a device at which a person may read or type.
// /dev/null is not: it is the input of scheduled programs.
func terminal(v any) bool {
	f, ok := v.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

const (
	lineDelay = 100 * time.Millisecond // maximum time that a line waits for others
	lineRoom  = 32 << 10               // maximum number of waiting bytes
)

// lines writes log lines in batches: every request logs one, and a system call
// for each would be a twentieth of the cost of an introspection. A warning or
// an error is written at once, with all lines before it, and the remaining
// lines at the end of the process. If the process is killed, log lines of its
// last 100 ms may be lost; the audit log is in the database and loses none.
type lines struct {
	to io.Writer

	mu  sync.Mutex
	buf []byte
	due bool // a flush is scheduled
}

// Write implements io.Writer. p is one line or several.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	if len(l.buf) >= lineRoom {
		return len(p), l.empty()
	}
	if !l.due {
		l.due = true
		time.AfterFunc(lineDelay, l.turn)
	}
	return len(p), nil
}

func (l *lines) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = false
	_ = l.empty() // the error cannot be reported anywhere
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.empty()
}

// empty writes the waiting lines. The caller holds mu, so that lines keep their
// order.
func (l *lines) empty() error {
	if len(l.buf) == 0 {
		return nil
	}
	_, err := l.to.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

// urgent writes warnings and errors at once.
type urgent struct {
	slog.Handler
	lines *lines
}

func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	err := u.Handler.Handle(ctx, r)
	if r.Level > slog.LevelInfo {
		u.lines.flush()
	}
	return err
}

func (u urgent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgent{u.Handler.WithAttrs(attrs), u.lines}
}

func (u urgent) WithGroup(name string) slog.Handler {
	return urgent{u.Handler.WithGroup(name), u.lines}
}

// drawnLines writes log lines so that no text in one can hide, reorder or forge
// another: JSON in ASCII, and text escaped as in tables. slog escapes line
// breaks, but not control and invisible characters.
type drawnLines struct {
	to   io.Writer
	json bool
}

// Write implements io.Writer. p is one line of slog.
func (d drawnLines) Write(p []byte) (int, error) {
	if plainLine(p) {
		return d.to.Write(p)
	}
	out := []byte(agenttext.Name(strings.TrimSuffix(string(p), "\n")) + "\n")
	if d.json {
		out = agenttext.ASCIIJSON(bytes.ToValidUTF8(p, []byte("\ufffd")))
	}
	if _, err := d.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plainLine reports whether p is printable ASCII that ends with a newline, as
// almost every line is.
func plainLine(p []byte) bool {
	for i, c := range p {
		if (c < ' ' || c > '~') && (c != '\n' || i != len(p)-1) {
			return false
		}
	}
	return true
}
