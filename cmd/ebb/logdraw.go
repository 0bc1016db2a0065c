package main

import (
	"bytes"
	"io"
	"strings"

	"ebb/broker/agenttext"
)

// drawnLines writes log lines so that no name in one can hide, reorder or forge another:
// JSON in ASCII, and text drawn as tables are. slog escapes what would break a line, and
// lets through what a terminal obeys or does not show.
type drawnLines struct {
	to   io.Writer
	json bool
}

// Write implements io.Writer. p is one line, as slog writes it.
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

// plainLine reports whether p is printable ASCII and a newline at its end: almost every line.
func plainLine(p []byte) bool {
	for i, c := range p {
		if (c < ' ' || c > '~') && (c != '\n' || i != len(p)-1) {
			return false
		}
	}
	return true
}
