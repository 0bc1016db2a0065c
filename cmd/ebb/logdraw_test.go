package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
)

// Logs in both formats: hostile text stays in one line and cannot hide; a JSON
// line preserves the text; and an agent's text is never logged.
func TestHostileLogs(t *testing.T) {
	t.Parallel()
	for name, text := range agenttexttest.Hostile(t) {
		for _, format := range []string{"json", "text"} {
			var b bytes.Buffer
			log, flush := newLogger(&b, "info", format)
			log.Info("a name", "name", text, slog.Group("g", "err", text), "agent", agenttext.From("zqxcanary "+text))
			flush()
			line, rest, ended := strings.Cut(b.String(), "\n")
			if !ended || rest != "" {
				t.Errorf("%s, %s: not one line: %q", name, format, b.String())
			}
			agenttexttest.Clean(t, name+", "+format, line)
			if strings.Contains(line, "zqxcanary") {
				t.Errorf("%s, %s: an agent's words: %s", name, format, line)
			}
			if format == "text" {
				continue
			}
			agenttexttest.ASCII(t, name, line)
			var back struct{ Name string }
			if err := json.Unmarshal([]byte(line), &back); err != nil || utf8.ValidString(text) && back.Name != text {
				t.Errorf("%s: came back as %q, %v", name, back.Name, err)
			}
		}
	}
}
