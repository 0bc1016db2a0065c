package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// TestMain makes the test binary the program ebb-bench of the scripts.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"ebb-bench": main}) }

// TestScripts runs testdata/script/*.txtar. They measure an ebb that is built
// here and is on PATH.
func TestScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "ebb"), "github.com/ebb-broker/ebb/cmd/ebb")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	text, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", e.Getenv("PATH")+string(filepath.ListSeparator)+dir)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("EBB_BINARY", filepath.Join(dir, "ebb"))
			return nil
		},
	})
}

// run runs one command line in this process, without an ebb on this machine.
func run(t *testing.T, args ...string) (code command.Exit, text string) {
	t.Helper()
	var b strings.Builder
	c := &cli{stdin: strings.NewReader(""), stdout: &b, stderr: &b, format: out.Table, environ: []string{"HOME=" + t.TempDir()}}
	code = c.run(t.Context(), args)
	return code, b.String()
}

// TestUsage checks that wrong use has exit code 2 and names the next step.
func TestUsage(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "ebb")
	for _, tt := range []struct{ args, next string }{
		{"nope", "see `ebb-bench help`"},
		{"--window 31s", "choose from 50ms to 30s"},
		{"--clients 0", "choose from 1 to 200000"},
		{"--scope x", "write one such as bench:load/1:read"},
		{"--ebb " + missing, "`go build ./cmd/ebb` makes one"},
		{"--url https://example.com", "name the configuration of that ebb with --config"},
		{"--url http://127.0.0.1:1", "name a runner's key with --key"},
		{"egress --clients 65", "choose from 1 to 64"},
		{"egress --rounds 0", "choose from 1 to 4000"},
		{"egress --ebb " + missing, "`go build ./cmd/ebb` makes one"},
		{"vault --children x", "see `ebb-bench help`"},
	} {
		if code, text := run(t, strings.Fields(tt.args)...); code != command.ExitUsage || !strings.Contains(text, "  -> ") || !strings.Contains(text, tt.next) {
			t.Errorf("ebb-bench %s: exit code %d:\n%s", tt.args, code, text)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"egress", "--help"}, {"vault", "--help"}} {
		code, text := run(t, args...)
		if code != command.ExitOK || !strings.Contains(text, "Usage:") {
			t.Errorf("%v: exit code %d:\n%s", args, code, text)
		}
		for line := range strings.Lines(text[:strings.Index(text+"Usage:", "Usage:")]) {
			if len(line) > 96 {
				t.Errorf("%v: a line of %d characters: %s", args, len(line), line)
			}
		}
	}
}

// TestEbbPath checks where the ebb to measure is found.
func TestEbbPath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ebb")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, flag := range []string{"", path} {
		if got, err := (&cli{ebb: flag}).ebbPath(); err != nil || got != path {
			t.Errorf("--ebb %q: %q, %v", flag, got, err)
		}
	}
	t.Setenv("PATH", "")
	if got, err := (&cli{}).ebbPath(); command.ExitOf(err) != command.ExitUsage {
		t.Errorf("without an ebb on PATH: %q, %v", got, err)
	}
	if _, err := (&cli{ebb: path + "x"}).ebbPath(); command.ExitOf(err) != command.ExitUsage {
		t.Errorf("with a --ebb that does not exist: %v", err)
	}
}
