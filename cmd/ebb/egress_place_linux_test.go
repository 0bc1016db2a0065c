package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// egress runs `ebb egress` for a task, and stops it after its output.
func (b *farBed) egress(t *testing.T, taskID string, f farFlags, said func(farEndpoint)) error {
	t.Helper()
	f.ca = cmp.Or(f.ca, filepath.Join(t.TempDir(), "ca.pem"))
	if err := f.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &cli{stderr: t.Output(), format: out.JSON, stdout: writer(func(p []byte) {
		var x farEndpoint
		if err := json.Unmarshal(p, &x); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		said(x)
		cancel()
	})}
	return (egressCommand{c}).egressFar(ctx, b.as(t, "runner"), taskID, f)
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// endpoints returns how many egress endpoints the audit log of an ebb has.
func (b *farBed) endpoints(t *testing.T) (n int) {
	t.Helper()
	for e, err := range b.node.store.Entries(t.Context(), broker.EntryFilter{Kind: "box."}) {
		if err != nil {
			t.Fatal(e, err)
		}
		n++
	}
	return n
}

// farDir creates a directory with a short path that only this user can enter,
// regardless of the umask.
func farDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// below creates a directory with a mode inside of another.
func below(t *testing.T, dir, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// badPlace is a place that is refused, and a part of the error.
type badPlace struct {
	name  string
	flags farFlags
	words string
}

// refuses checks that no endpoint is opened at a place, no file is created
// below dir, and no audit entry is written.
func (b *farBed) refuses(t *testing.T, dir string, places []badPlace) {
	t.Helper()
	for _, x := range places {
		err := b.egress(t, b.task.ID, x.flags, func(said farEndpoint) { t.Errorf("%s: it is open: %+v", x.name, said) })
		if f, is := errors.AsType[*failure](err); !is || f.Next == "" || !strings.Contains(f.Text, x.words) {
			t.Errorf("%s: %v", x.name, err)
		}
		if n := b.endpoints(t); n != 0 {
			t.Fatalf("%s: the audit log has %d egress endpoints", x.name, n)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

// TestEgressPlace: a place that others could use is refused with its own error
// and next step, before an endpoint is opened: the audit log has no entry.
func TestEgressPlace(t *testing.T) {
	t.Parallel()
	b, dir := newFarBed(t), farDir(t)
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(below(t, dir, "own", 0o700), link)); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	socket := func(path string) farFlags { return farFlags{dir: path, anybody: true} }
	hostile := []badPlace{
		{"no directory", socket(filepath.Join(dir, "none")), "no such file"},
		{"a file", socket(file), "is not a directory"},
		{"a link", socket(link), "is a symbolic link"},
		{"a link, by what it leads to", socket(link + "/"), "is a symbolic link"},
		{"a link, by what is in it", socket(link + "/."), "is a symbolic link"},
		{"others may look", socket(below(t, dir, "look", 0o755)), "(mode 0755)"},
		{"others may enter", socket(below(t, dir, "enter", 0o701)), "(mode 0701)"},
		{"the group may look", socket(below(t, dir, "group", 0o750)), "(mode 0750)"},
		{"the group may write", socket(below(t, dir, "write", 0o720)), "(mode 0720)"},
		{"a long path", socket(below(t, dir, strings.Repeat("a", config.MaxSocketPath-len(dir)-21), 0o700)), "too long"},
		{"a port that is taken", farFlags{listen: taken.Addr().String(), anybody: true}, "address already in use"},
		{"a certificate in no directory", farFlags{dir: dir, anybody: true, ca: filepath.Join(dir, "none", "ca.pem")}, "no such file"},
		{"a certificate that is a directory", farFlags{dir: dir, anybody: true, ca: dir}, "is a directory"},
		{"a port of all", farFlags{listen: "0.0.0.0:0", anybody: true}, "is not a port of loopback"},
	}
	b.refuses(t, dir, hostile)
}

// TestEgressPlaceOfSomebodyElse: ... and so is a directory of another user.
func TestEgressPlaceOfSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "only root can give a directory away")
	}
	b, dir := newFarBed(t), farDir(t)
	other := below(t, dir, "other", 0o700)
	if err := os.Chown(other, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	b.refuses(t, dir, []badPlace{{"somebody else's", farFlags{dir: other, anybody: true}, "belongs to another user"}})
}

// TestEgressPlaceOfNamespaces: ... and so is a file that is not a network
// namespace, or is ebb's own.
func TestEgressPlaceOfNamespaces(t *testing.T) {
	t.Parallel()
	if err := egress.CheckKernel(); err != nil {
		counterpart.Missing(t, "peer-pidfd", err.Error())
	}
	b, dir := newFarBed(t), farDir(t)
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	namespace := func(path string) farFlags { return farFlags{dir: dir, namespace: path} }
	b.refuses(t, dir, []badPlace{
		{"no namespace", namespace("/proc/0/ns/net"), "no such file"},
		{"a plain file", namespace(file), "is not a network namespace"},
		{"a pipe", namespace(fifo), "is not a network namespace"},
		{"a directory", namespace(dir), "is not a network namespace"},
		{"a namespace of processes", namespace("/proc/self/ns/pid"), "is not a network namespace"},
		{"its own namespace", namespace("/proc/self/ns/net"), "of this process itself"},
	})
	if n := descriptors(t, file); n != 0 {
		t.Errorf("%d descriptors are left of what was refused", n)
	}
}

// TestEgressPlaceIsTaken: a valid place is accepted, up to the longest path,
// and released at the end, also if ebb opens no endpoint.
func TestEgressPlaceIsTaken(t *testing.T) {
	t.Parallel()
	b, dir := newFarBed(t), farDir(t)
	long := below(t, dir, strings.Repeat("a", config.MaxSocketPath-len(dir)-22), 0o700)
	for _, path := range []string{dir, long, long + "/"} {
		var said farEndpoint
		if err := b.egress(t, b.task.ID, farFlags{dir: path, anybody: true}, func(x farEndpoint) { said = x }); err != nil || filepath.Dir(filepath.Dir(said.Socket)) != filepath.Clean(path) {
			t.Errorf("%s: %+v, %v", path, said, err)
		}
	}
	if b.endpoints(t) == 0 {
		t.Error("no sandbox is on the record")
	}
	var at string // address from which no other client connects
	if err := b.egress(t, b.task.ID, farFlags{listen: "127.0.0.87:0", anybody: true}, func(x farEndpoint) { at = x.Listen }); err != nil || at == "" {
		t.Fatal(at, err)
	}
	if err := b.egress(t, "tsk_00", farFlags{listen: at, anybody: true}, func(x farEndpoint) { t.Errorf("it is open: %+v", x) }); err == nil {
		t.Error("a sandbox of no task")
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatalf("the port is not given back: %v", err)
	}
	_ = l.Close()
}

// TestEgressNamespace: the sandbox's network namespace is held while the
// endpoint is open, so that its inode number is not reused.
func TestEgressNamespace(t *testing.T) {
	t.Parallel()
	b, dir := newFarBed(t), farDir(t)
	if listener, err := egress.NewListener(dir, broker.EgressEndpoint{ID: strings.Repeat("0", 16)}, broker.EndpointByKernel, nil); err != nil {
		counterpart.Missing(t, "peer-pidfd", err.Error())
	} else if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	path, link := otherNamespace(t)
	var said farEndpoint
	if err := b.egress(t, b.task.ID, farFlags{dir: dir, namespace: path}, func(x farEndpoint) {
		said = x
		if descriptors(t, link) == 0 {
			t.Error("nothing holds the namespace")
		}
	}); err != nil || said.Socket == "" {
		t.Fatalf("%+v, %v", said, err)
	}
	if n := descriptors(t, link); n != 0 {
		t.Errorf("%d descriptors are left of the namespace", n)
	}
}

// otherNamespace returns the network namespace of a process in a new one, and
// the text of its link in /proc.
func otherNamespace(t *testing.T) (path, link string) {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		counterpart.Missing(t, "peer-pidfd", "this user cannot make namespaces: "+err.Error())
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	path = fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
	link, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, link
}

// descriptors counts the descriptors of this process whose link in /proc has a
// text.
func descriptors(t *testing.T, of string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && to == of {
			n++
		}
	}
	return n
}
