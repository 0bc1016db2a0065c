package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	lineDelay = 100 * time.Millisecond // how long a line may wait for others
	lineRoom  = 32 << 10               // bytes that wait at most
)

// lines writes log lines together: every request logs one, and a system call for
// each is a twentieth of what an introspection costs. A warning or an error is
// written at once, with all before it, and so is the rest at the end of the process.
// A process that is killed may take the lines of its last tenth of a second with it;
// the record, which must not, is the journal's.
type lines struct {
	to io.Writer

	mu  sync.Mutex
	buf []byte
	due bool // a flush comes by itself
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
	_ = l.empty() // nobody is left to be told
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.empty()
}

// empty needs mu: lines keep their order.
func (l *lines) empty() error {
	if len(l.buf) == 0 {
		return nil
	}
	_, err := l.to.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

// urgent does not let warnings and errors wait.
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
