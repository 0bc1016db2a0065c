package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// person is a pseudo-terminal, its keyboard, and the content of its screen once every
// process has closed it.
func person(t *testing.T) (*os.File, io.Writer, chan string) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(screen) // ends with an error when the terminal is closed
		_ = screen.Close()
		text <- string(all)
	}()
	return f, screen, text
}

// TestRunStreams: (E118) a command has streams of its own, so that it can open
// none of the user's again: no terminal, whichever of the three it was, and no
// file. The terminal is not the console of the sandbox either.
//
//ebb:invariant I6 A sandbox gets neither the user's terminal nor a file of the user's streams that it could open again
func TestRunStreams(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	for which, name := range []string{"input", "output", "errors", "nothing"} {
		tty, _, screen := person(t)
		var persons unix.Stat_t
		if err := unix.Fstat(int(tty.Fd()), &persons); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(b.home, name)
		if err := os.WriteFile(path, []byte("as it was\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 4242, 4242); err != nil { // only the sandbox prevents access
			t.Fatal(err)
		}
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		cmd := b.ebb("run", "--scope", "shop:**:*", "--", "sh", "-c", `exec 2>>errs; for n in 0 1 2; do stat -L -c 'rdev %r' /proc/$$/fd/$n; done >rdevs; stat -L -c 'rdev %r' /dev/console >>rdevs
			(echo hacked >/proc/self/fd/0); test -t 0 || cat; echo to the file >/dev/stdout`)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
		switch which {
		case 0:
			cmd.Stdin = tty
		case 1:
			cmd.Stdout = tty
		case 2:
			cmd.Stderr = tty
		}
		err = cmd.Run()
		_, _ = in.Close(), tty.Close()
		seen := <-screen
		if err != nil {
			t.Fatalf("%s: %v\n%s%s%s", name, err, out.String(), errs.String(), seen)
		}
		text, err := os.ReadFile(filepath.Join(b.work, "rdevs"))
		if err != nil || strings.Contains(string(text), fmt.Sprintf("rdev %d\n", persons.Rdev)) {
			t.Errorf("%s: the command has the person's terminal: %s, %v", name, text, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "as it was\n" {
			t.Errorf("%s: the person's file is %q, %v", name, text, err)
		}
		if all := out.String() + seen; which != 0 && !strings.Contains(all, "as it was") || !strings.Contains(all, "to the file") {
			t.Errorf("%s: it wrote %q", name, all)
		}
	}
}
