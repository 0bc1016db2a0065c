package main

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// TestApproveAtTerminal: before `ebb requests approve` asks for a confirmation, it
// prints every fact that the digest covers.
//
//ebb:invariant I7 The command line shows every fact under the digest before an approver confirms it at the terminal
func TestApproveAtTerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	ticket := s.ticket()
	asking := s.command("token", "--key", "sandbox.key", "--ticket", ticket, "--scope", "local:a/b:write", "--reason", "push the fix", "--wait")
	if err := asking.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = asking.Process.Signal(syscall.SIGINT); _ = asking.Wait() }()
	var waiting []wire.Request
	for end := time.Now().Add(patience); len(waiting) == 0; time.Sleep(20 * time.Millisecond) {
		if s.says(&waiting, "requests", "list", "-o", "json"); time.Now().After(end) {
			t.Fatal("no request waits")
		}
	}
	var r wire.Request
	s.says(&r, "requests", "show", waiting[0].ID, "-o", "json")
	for _, c := range []struct {
		answer string
		state  wire.RequestState
	}{{"no", wire.RequestPending}, {"", wire.RequestPending}, {"yes", wire.RequestApproved}} {
		shown, err := s.answers(c.answer, "requests", "approve", r.ID)
		if (err == nil) != (c.state == wire.RequestApproved) {
			t.Errorf("%q: %v\n%s", c.answer, err, shown)
		}
		_, facts, _ := strings.Cut(shown, "facts\n")
		var screen, sheet any
		if err := json.NewDecoder(strings.NewReader(facts)).Decode(&screen); err != nil {
			t.Fatalf("%q: %v\n%s", c.answer, err, shown)
		}
		if err := json.Unmarshal(r.Facts, &sheet); err != nil || !reflect.DeepEqual(screen, sheet) {
			t.Errorf("%q: the screen has the facts %v, the digest covers %v (%v)", c.answer, screen, sheet, err)
		}
		if i, j := strings.Index(shown, "facts\n"), strings.Index(shown, "approve? [y/N]"); i < 0 || j < i {
			t.Errorf("%q: the question is before the facts:\n%s", c.answer, shown)
		}
		var after wire.Request
		if s.says(&after, "requests", "show", r.ID, "-o", "json"); after.State != c.state && (after.State != wire.RequestIssued || c.state != wire.RequestApproved) {
			t.Errorf("%q: the request is %s, want %s", c.answer, after.State, c.state)
		}
	}
}

// answers runs a command at a terminal where a person types a line, and returns the
// screen.
func (s *shell) answers(line string, args ...string) (string, error) {
	s.t.Helper()
	tty, keyboard, screen := person(s.t)
	cmd := s.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if _, err := io.WriteString(keyboard, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
	err := cmd.Run()
	_ = tty.Close()
	return strings.ReplaceAll(<-screen, "\r\n", "\n"), err
}
