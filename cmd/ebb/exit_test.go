package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// TestExitCodes checks the documented exit codes.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want exit
	}{
		{usage("x", "y"), exitUsage},
		{fail("x", "y"), exitFailure},
		{fmt.Errorf("wrapped: %w", usage("x", "y")), exitUsage},
		{config.Problems{{Key: "a"}}, exitUsage},
		{&client.Problem{Kind: wire.KindDenied}, exitRefused},
		{&client.Problem{Kind: wire.KindForbidden}, exitRefused},
		{&client.Problem{Kind: wire.KindUnauthenticated}, exitRefused},
		{&client.Problem{Kind: wire.KindInvalidScope}, exitRefused},
		{&client.Problem{Kind: wire.KindAskRequired}, exitPending},
		{&client.Problem{Kind: wire.KindPending}, exitPending},
		{&client.Problem{Kind: wire.KindExpiredRequest}, exitPending},
		{&client.Problem{Kind: wire.KindUnavailable}, exitUnavailable},
		{&client.Problem{Kind: wire.KindTooMany}, exitUnavailable},
		{&client.Problem{Status: 502}, exitUnavailable},
		{&client.Problem{Kind: wire.KindNotFound, Status: 404}, exitFailure},
		{&client.Problem{Kind: wire.KindConflict, Status: 409}, exitFailure},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, exitUnavailable},
		{context.DeadlineExceeded, exitUnavailable},
		{errors.New("anything"), exitFailure},
	} {
		if got := exitOf(tt.err); got != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, got, tt.want)
		}
	}
}

// TestHelpForEveryCommand walks the whole command tree: every command has a
// description and supports --help, and no flag makes help panic.
func TestHelpForEveryCommand(t *testing.T) {
	t.Parallel()
	var paths [][]string
	c := &cli{stdout: &strings.Builder{}, stderr: &strings.Builder{}, format: out.Table}
	root := newRoot(c)
	var walk func(prefix []string)
	walk = func(prefix []string) {
		cmd, _, err := root.Find(prefix)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Short == "" {
			t.Errorf("%v says nothing about itself", prefix)
		}
		paths = append(paths, prefix)
		for _, sub := range cmd.Commands() {
			walk(append(append([]string{}, prefix...), sub.Name()))
		}
	}
	walk(nil)
	if len(paths) < 35 {
		t.Errorf("there are %d commands", len(paths))
	}
	for _, p := range paths {
		var text strings.Builder
		c := &cli{stdin: strings.NewReader(""), stdout: &text, stderr: &text, format: out.Table}
		if code := c.run(t.Context(), append(p, "--help")); code != exitOK || text.Len() == 0 {
			t.Errorf("%v --help: exit code %d", p, code)
		}
	}
}

// TestHelpOnNoCommand: help for an unknown command is an error, not the help of
// its parent.
func TestHelpOnNoCommand(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"ingress", "--help"}, {"leases", "shw", "-h"}, {"--help", "ingress"}} {
		var said, failed strings.Builder
		c := &cli{stdin: strings.NewReader(""), stdout: &said, stderr: &failed, format: out.Table}
		if code := c.run(t.Context(), words); code != exitUsage || said.Len() > 0 || !strings.Contains(failed.String(), "unknown command") {
			t.Errorf("%v: exit code %d, %q, %q", words, code, said.String(), failed.String())
		}
	}
}

// TestErrorsSayWhatNext runs commands into their most frequent errors: each
// names the next step in a line that begins with an arrow, or is a response of
// the server.
func TestErrorsSayWhatNext(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	key := filepath.Join(home, "nokey")
	if err := os.WriteFile(key, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"nope"}, {"task"}, {"task", "open"}, {"task", "open", "--scope", "::"}, {"task", "list"}, {"task", "list", "--key", key}, {"task", "show"},
		{"token"}, {"token", "--key", key}, {"token", "--key", key + "x", "--scope", "a:b:read"}, {"requests", "approve", "x"}, {"leases", "revoke"},
		{"audit", "verify", "/none"}, {"audit", "verify"}, {"policy", "check", "/none"}, {"policy", "test"}, {"policy", "replay", "/none"},
		{"keys", "list"}, {"keys", "new", filepath.Join(home, "a", "b")}, {"run", "--scope", "a:b:read", "--", "true"},
		{"doctor", "--ca-file", "/none"}, {"migrate", "--config", "/none"}, {"serve", "--config", "/none"},
	} {
		var text strings.Builder
		c := &cli{stdin: strings.NewReader(""), stdout: &text, stderr: &text, format: out.Table, environ: []string{"HOME=" + home}}
		code := c.run(t.Context(), args)
		if args[0] == "task" && len(args) == 1 {
			if code != exitOK {
				t.Errorf("%v: exit code %d", args, code)
			}
			continue
		}
		if code == exitOK || !strings.Contains(text.String(), "->") {
			t.Errorf("%v: exit code %d:\n%s", args, code, text.String())
		}
	}
}
