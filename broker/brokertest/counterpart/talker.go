package counterpart

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Talker is a running Node program that writes one line of JSON for each message, and
// ends when its input does.
type Talker struct {
	t     testing.TB
	in    io.Writer
	lines *bufio.Scanner
}

// Talk runs a file of this repository with Node, with the packages in the directory that
// a variable names. args follow the name of the file.
func Talk(t testing.TB, variable, file string, args ...string) *Talker {
	t.Helper()
	dir := Need(t, variable)
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	// Node looks for packages beside the file, and tests of several packages share them.
	f, err := os.CreateTemp(dir, "test-*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Clean(f.Name())}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &Talker{t: t, in: in, lines: bufio.NewScanner(out)}
}

// Hear reads the next line.
func (p *Talker) Hear(into any) {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the program of Node ended: %v", p.lines.Err())
	}
	if err := json.Unmarshal(p.lines.Bytes(), into); err != nil {
		p.t.Fatal(err)
	}
}

// Ask sends an empty line and reads the answer.
func (p *Talker) Ask(into any) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(err)
	}
	p.Hear(into)
}
