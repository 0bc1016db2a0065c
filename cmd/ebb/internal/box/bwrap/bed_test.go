//go:build linux

package bwrap_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ebb/broker/brokertest/counterpart"
	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/bwrap"
	"ebb/cmd/ebb/internal/shim"
)

// TestMain is also the shim of the boxes, what some of them run, and a runner to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "shim":
		c, err := shim.Parse(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		code, err := shim.Run(c)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	case "try":
		try(os.Args[2:])
	case "runner":
		runner(os.Args[2])
	default:
		os.Exit(m.Run())
	}
}

// bed makes boxes for one test.
type bed struct {
	t    *testing.T
	kind bwrap.Kind
	spec box.Spec
}

// newBed has a work directory. As root, the boxes are of a user who is nobody.
func newBed(t *testing.T) *bed {
	t.Helper()
	program := counterpart.Need(t, "EBB_TEST_BWRAP")
	b := &bed{t: t, kind: bwrap.Kind{Program: program, Self: self(t)}, spec: box.Spec{Env: []string{"PATH=" + box.Search, "HOME=" + box.Home}, Work: t.TempDir(), Stdin: null(t)}}
	b.spec.User = owner(t)
	if b.spec.User != nil {
		if err := os.Chown(b.spec.Work, int(b.spec.User.UID), int(b.spec.User.GID)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func owner(t *testing.T) *box.Owner {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	return &box.Owner{UID: 4242, GID: 4242} // nobody: a number is enough for the kernel
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func null(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// started is a box that runs.
type started struct {
	box.Running
	t        *testing.T
	out, err chan string
}

// start starts argv in a box.
func (b *bed) start(argv ...string) *started {
	b.t.Helper()
	s := b.spec
	s.Argv = argv
	r := &started{t: b.t}
	var done [2]func()
	s.Stdout, r.out, done[0] = reader(b.t)
	s.Stderr, r.err, done[1] = reader(b.t)
	var err error
	r.Running, err = b.kind.Start(s)
	done[0]()
	done[1]()
	if err != nil {
		b.t.Fatalf("%v: %s", err, <-r.err)
	}
	b.t.Cleanup(r.Kill)
	return r
}

// reader is a file to write to, and what was written when nobody can write any more.
func reader(t *testing.T) (*os.File, chan string, func()) {
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

// wait waits for the end and returns code, output and errors.
func (r *started) wait() (int, string, string) {
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
		r.t.Fatal("the box does not end")
	}
	panic("unreachable")
}

// sh runs a script in a box and wants it to end well.
func (b *bed) sh(script string) string {
	b.t.Helper()
	code, out, errs := b.start("sh", "-c", script).wait()
	if code != 0 {
		b.t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	return out
}

// processes are those of this machine whose command line holds a word.
func processes(t *testing.T, word string) []string {
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

// until waits for something that is bound to happen.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// runner starts a box as the machine's runner does and waits to be killed with it.
func runner(word string) {
	s := box.Spec{Argv: []string{"sh", "-c", "setsid sleep 600." + word + " & (setsid nohup sleep 601." + word + " &) ; echo up; sleep 602." + word}, Env: []string{"PATH=" + box.Search}, Work: os.Args[3], Stdout: os.Stdout, Stderr: os.Stderr}
	if len(os.Args) > 4 {
		uid, _ := strconv.ParseUint(os.Args[4], 10, 32)
		s.User = &box.Owner{UID: uint32(uid), GID: uint32(uid)}
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	r, err := bwrap.Kind{Program: os.Getenv("EBB_TEST_BWRAP"), Self: self}.Start(s)
	if err != nil {
		panic(err)
	}
	_, err = r.Wait()
	panic(fmt.Sprint("the box ended before its runner: ", err))
}
