package doctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Inside()
	os.Exit(m.Run())
}

func newShell(t *testing.T) *Shell {
	t.Helper()
	s := &Shell{Dir: t.TempDir(), Scratch: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, Patience: time.Minute}
	if _, err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestShell(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, tt := range []struct {
		step     Step
		out, err string
	}{
		{Step{Line: 3, Text: "mkdir d\nx=1; cd d\n"}, "", ""},
		{Step{Line: 7, Text: "echo $x ${PWD##*/}; echo error >&2; cat\n"}, "1 d\nerror\n", ""},
		{Step{Line: 7, File: "conf/a.yaml", Text: "a: 1\n"}, "", ""},
		{Step{Line: 7, Text: "cat ../conf/a.yaml\n"}, "a: 1\n", ""},
		{Step{Line: 7, Text: "(exit 3)\n", Exit: 3}, "", ""},
		{Step{Line: 7, Text: "(exit 3)\n", Exit: 4}, "", "exit code 3, expected 4"},
		{Step{Line: 7, Text: "true\n", Exit: 4}, "", "exit code 0, expected 4"},
		{Step{Line: 9, Background: true, Text: "trap 'echo bye >../bye; exit' TERM\necho ${x-unset} ${PWD##*/}; echo is ready\nwhile :; do sleep 0.01; done\n", Want: &Output{Text: "...\nis ready\n"}}, "unset " + filepath.Base(s.Dir) + "\nis ready\n", ""},
		{Step{Line: 9, Background: true, Text: "echo broken; exit 7\n"}, "broken\n", "exit code 7 before it was ready"},
		{Step{Line: 7, Text: "echo before\nfalse\necho after\n"}, "before\n", "exit code 1, expected 0, in line 8"},
		{Step{Line: 7, Text: "true\n"}, "", "the shell has ended"},
	} {
		out, err := s.Run("page.md", tt.step)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if out != tt.out || got != tt.err && (tt.err == "" || !strings.HasPrefix(got, tt.err)) {
			t.Errorf("%q: %q, %q; want %q, %q", tt.step.Text, out, got, tt.out, tt.err)
		}
	}
	s.Close()
	if _, err := os.Stat(filepath.Join(filepath.Dir(s.Dir), "bye")); err != nil {
		t.Errorf("the background block was not asked to end: %v", err)
	}
}

// Two pages may use the same port.
func TestShellNetwork(t *testing.T) {
	t.Parallel()
	s := &Shell{Dir: t.TempDir(), Scratch: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}, Patience: time.Minute}
	isolated, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !isolated {
		return // the machine's own network, which the page shares
	}
	out, err := s.Run("page.md", Step{Line: 1, Text: "readlink /proc/self/ns/net\n"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil || strings.TrimSpace(out) == own {
		t.Errorf("the page is in %s, the test in %s, %v", out, own, err)
	}
	// Without an interface that is up the error would be "Network is unreachable".
	if out, _ := s.Run("page.md", Step{Line: 1, Text: "exec 9<>/dev/tcp/127.0.0.1/1\n"}); !strings.Contains(out, "Connection refused") {
		t.Errorf("the loopback interface: %s", out)
	}
}
