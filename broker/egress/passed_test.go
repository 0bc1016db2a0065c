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

// give connects to a socket, and passes the connection to the listener at another (SCM_RIGHTS).
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

// taken returns the response to /sandbox in the next connection that is passed over a listener.
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

// pass has one process connect to its endpoint and another one, of another network namespace, send
// a request in that connection. It returns the response.
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

// E105: the process that connected counts, and not the process that sends data in a passed
// connection. So no process gets into an endpoint by the descriptor of another, not even the
// sandbox itself. A connection that the sandbox passes on counts as the sandbox's own, like data
// that it relays.
//
//ebb:invariant I2 An egress endpoint admits a connection by the network namespace of the process that opened it, not of the process that uses it
func TestPassedConnections(t *testing.T) {
	t.Parallel()
	b := newKernelSandbox(t)
	if _, err := b.register(b.in.namespace); err != nil {
		t.Fatal(err)
	}
	if got := pass(t, b.other, b.in); got != "" {
		t.Errorf("made by another process, passed to the sandbox: %q", got)
	}
	if got := pass(t, b.in, b.other); got != "HTTP/1.1 200 OK" {
		t.Errorf("made by the sandbox, passed to another process: %q", got)
	}
	if got := fmt.Sprint(b.kinds(t, b.TaskID)); !strings.Contains(got, "box.stranger") {
		t.Errorf("in the audit log: %s", got)
	}
}
