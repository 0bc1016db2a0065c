package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/ebb-broker/ebb/broker/agenttext"
)

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
