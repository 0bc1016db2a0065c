//go:build linux

package sandboxtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// Bed starts the sandboxes of one test.
type Bed struct {
	T    *testing.T
	Kind sandbox.Kind
	Spec sandbox.Spec
}

// New returns a Bed with a work directory. For root, the sandboxes run as an
// unprivileged user.
func New(t *testing.T, kind sandbox.Kind) *Bed {
	t.Helper()
	b := &Bed{T: t, Kind: kind, Spec: sandbox.Spec{Env: []string{"PATH=" + sandbox.Search, "HOME=" + sandbox.Home}, Work: t.TempDir(), Stdin: null(t)}}
	b.Spec.User = owner(t)
	if b.Spec.User != nil {
		if err := os.Chown(b.Spec.Work, int(b.Spec.User.UID), int(b.Spec.User.GID)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// Main is the body of TestMain. It returns the exit code of the tests, or of
// the part of a sandbox that this binary is started as.
func Main(m *testing.M, shim func(args []string) (code int, err error), runner func(args []string)) int {
	if len(os.Args) < 2 {
		return m.Run()
	}
	switch os.Args[1] {
	case "shim":
		code, err := shim(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return code
	case "try":
		try(os.Args[2:])
		return 0
	case "runner":
		runner(os.Args[2:])
		return 0
	}
	return m.Run()
}

// owner is the user of the test's sandboxes; nil = the user of the test.
func owner(t *testing.T) *sandbox.Owner {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	return &sandbox.Owner{UID: 4242, GID: 4242} // the number needs no entry in /etc/passwd
}

// Self is the path of the test binary.
func Self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// null is an empty standard input.
func null(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Started is a running sandbox.
type Started struct {
	sandbox.Running
	t        *testing.T
	out, err chan string
}

// Start starts argv in a sandbox.
func (b *Bed) Start(argv ...string) *Started {
	b.T.Helper()
	s := b.Spec
	s.Argv = argv
	r := &Started{t: b.T}
	var done [2]func()
	s.Stdout, r.out, done[0] = Reader(b.T)
	s.Stderr, r.err, done[1] = Reader(b.T)
	var err error
	r.Running, err = b.Kind.Start(s)
	done[0]()
	done[1]()
	if err != nil {
		b.T.Fatalf("%v: %s", err, <-r.err)
	}
	b.T.Cleanup(r.Kill)
	return r
}

// Reader returns a file to write to, and a channel with all that was written
// once every writer is closed.
func Reader(t *testing.T) (*os.File, chan string, func()) {
	t.Helper()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(in)
		_ = in.Close()
		text <- string(all)
	}()
	return w, text, func() { _ = w.Close() }
}

// End waits until the sandbox has ended and returns its exit code, output and
// errors.
func (r *Started) End() (int, string, string) {
	r.t.Helper()
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		code, err := r.Wait()
		ended <- end{code, err}
	}()
	select {
	case e := <-ended:
		if e.err != nil {
			r.t.Fatalf("%v: %s", e.err, <-r.err)
		}
		return e.code, <-r.out, <-r.err
	case <-time.After(time.Minute):
		r.Kill()
		r.t.Fatal("the sandbox does not end within 1m0s")
	}
	panic("unreachable")
}

// Sh runs a script in a sandbox and fails the test unless it exits with 0.
func (b *Bed) Sh(script string) string {
	b.T.Helper()
	code, out, errs := b.Start("sh", "-c", script).End()
	if code != 0 {
		b.T.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	return out
}

// Processes returns the processes of this machine whose command line contains a
// word.
func Processes(t *testing.T, word string) []string {
	t.Helper()
	var found []string
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte(word)) {
			found = append(found, path+": "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}

// Until waits up to two minutes for a condition.
func Until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// lines maps each attempt of Try to its result.
func lines(out string) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(out) {
		what, how, _ := strings.Cut(strings.TrimSpace(line), ": ")
		said[what] = how
	}
	return said
}

// Try runs attempts in a sandbox.
func (b *Bed) Try(words ...string) map[string]string {
	b.T.Helper()
	code, out, errs := b.Start(append([]string{sandbox.Self, "try"}, words...)...).End()
	if code != 0 {
		b.T.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	return lines(out)
}
