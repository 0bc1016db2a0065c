package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

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
