package command_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// The steps of a server are its text: they cannot hide in a terminal, and are bounded.
func TestReportDrawsTheStepsOfAServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    client.Problem
		want string
	}{
		"steps": {
			client.Problem{Status: 403, Kind: wire.KindDenied, Detail: "No.", Next: []string{"ask for less", "ask the owner"}, Advice: &wire.Advice{WouldAllow: "a:b:read"}},
			"ebb: ebb answered access_denied: No.\n  -> this scope needs no approval: --scope 'a:b:read'\n  -> ask for less\n  -> ask the owner\n",
		},
		"no steps": {client.Problem{Status: 404, Kind: wire.KindNotFound, Detail: "There is no such task."}, "ebb: ebb answered not_found: There is no such task.\n  -> list the ids and names that you may see: `ebb task list`, `ebb requests list --all`, `ebb leases list`, `ebb providers list`\n"},
		"control characters": {
			client.Problem{Status: 400, Kind: wire.KindInvalid, Detail: "No.", Next: []string{"a\x1b[2J\rb\n  -> rm -rf /\u202e"}},
			"ebb: ebb answered invalid_request: No.\n  -> a[U+001B][2J[U+000D]b[U+000A]  -> rm -rf /[U+202E]\n",
		},
		"without a detail": {client.Problem{Status: 403, Kind: wire.KindAskRequired, Next: []string{"repeat it with --wait"}}, "ebb: ebb answered approval_required\n  -> repeat it with --wait\n"},
	} {
		var b bytes.Buffer
		command.Report(&b, "ebb", &c.p, true)
		if b.String() != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, b.String(), c.want)
		}
	}
	var b bytes.Buffer
	command.Report(&b, "ebb", &client.Problem{Status: 400, Kind: wire.KindInvalid, Detail: "No.", Next: []string{strings.Repeat("a b ", 1<<14)}}, true)
	if b.Len() > 1200 {
		t.Errorf("a step of %d bytes is printed", b.Len())
	}
}

// A failure may repeat a file, such as an export with a forged filter: nothing of it reaches the terminal as a control
// sequence. Ends of lines stay.
func TestReportDrawsFailures(t *testing.T) {
	t.Parallel()
	part := audit.FilteredError{Filter: audit.Filter{Kind: "\x1b[2K\rPROVED\u202e"}}
	var b bytes.Buffer
	command.Report(&b, "ebb", command.Fail("NOT PROVED: "+part.Error()+"\nsecond line", "look at \x1b]0;x\x07"), true)
	if text := b.String(); strings.ContainsAny(text, "\x1b\r\x07\u202e") || strings.Count(text, "\n") != 3 || !strings.Contains(text, "PROVED[U+202E]") {
		t.Errorf("%q", text)
	}
}
