//go:build linux

package egress_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// give connects to a socket, and passes the connection to who listens at another (SCM_RIGHTS).
func give(path, to string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	f, err := c.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	other, err := net.Dial("unix", to)
	if err != nil {
		return err
	}
	defer func() { _ = other.Close() }()
	_, _, err = other.(*net.UnixConn).WriteMsgUnix([]byte{0}, syscall.UnixRights(int(f.Fd())), nil)
	return err
}

// taken is what /box answers in the connection that the next one who comes to a listener passes.
func taken(l net.Listener) (string, error) {
	from, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }()
	rights := make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := from.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return "", err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return "", fmt.Errorf("%d messages: %w", len(messages), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return "", fmt.Errorf("%d descriptors: %w", len(fds), err)
	}
	f := os.NewFile(uintptr(fds[0]), "passed")
	defer func() { _ = f.Close() }()
	c, err := net.FileConn(f)
	if err != nil {
		return "", err
	}
	return ask(c), nil
}

// pass has one process connect to its box and another, of another network namespace, speak in
// that connection, and returns what that is answered.
func pass(t *testing.T, from, to *child) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pass")
	to.say("take " + path)
	if got := to.answer(t); got != "ready" {
		t.Fatal(got)
	}
	from.say("give " + path)
	if got := from.answer(t); got != "given" {
		t.Fatal(got)
	}
	return to.answer(t)
}

// E105: who connected counts, and not who speaks in a connection that was passed on. So nobody gets
// into a box by a descriptor that another made, not even the box itself; what a box passes on is its
// own still, as what it would carry for somebody is.
func TestPassedConnections(t *testing.T) {
	t.Parallel()
	b := newKernelBox(t)
	if _, err := b.register(b.in.namespace); err != nil {
		t.Fatal(err)
	}
	if got := pass(t, b.other, b.in); got != "" {
		t.Errorf("made by another, passed to the box: %q", got)
	}
	if got := pass(t, b.in, b.other); got != "HTTP/1.1 200 OK" {
		t.Errorf("made by the box, passed to another: %q", got)
	}
	if got := fmt.Sprint(b.kinds(t, b.TaskID)); !strings.Contains(got, "box.stranger") {
		t.Errorf("on the record: %s", got)
	}
}
