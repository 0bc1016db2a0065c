package main

import (
	"io"
	"log/slog"
	"os"
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
