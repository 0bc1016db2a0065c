package egress_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress"
)

// place opens endpoints with sockets in a directory.
func (b *bed) place(dir string) error {
	sandboxes, err := egress.NewEndpoints(egress.EndpointsConfig{Proxy: b.proxy, Runners: b.Broker, Dir: dir, Identity: broker.EndpointBySocket})
	if err == nil {
		err = sandboxes.Close()
	}
	return err
}

// dirs returns a directory with a short path.
func dirs(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb-egress-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// E115: a directory that others can enter or change, a directory of another user, and a link are
// refused as places for sockets.
//
//ebb:invariant I6 ebb creates the sockets of sandboxes only in a directory that no other user can enter
func TestPlaceOfEndpoints(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	in := dirs(t)
	made := func(name string, mode os.FileMode) string {
		path := filepath.Join(in, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, mode := range []os.FileMode{0o701, 0o710, 0o720, 0o705, 0o755, 0o777, 0o777 | os.ModeSticky} {
		if err := b.place(made(mode.String(), mode)); err == nil {
			t.Errorf("mode %v is taken", mode)
		}
	}
	own := made("own", 0o700)
	link := filepath.Join(in, "link")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(in, "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, file} {
		if err := b.place(path); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
	for _, path := range []string{own, filepath.Join(in, "new", "one")} {
		if err := b.place(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A directory of another user is refused.
//
//ebb:invariant I6 ebb creates no socket of a sandbox in a directory that belongs to another user
func TestPlaceOfSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "only root can give a directory away")
	}
	b := newBed(t, echo)
	theirs := filepath.Join(dirs(t), "theirs")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.place(theirs); err != nil {
		t.Fatalf("its own: %v", err)
	}
	if err := os.Chown(theirs, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if err := b.place(theirs); err == nil {
		t.Error("a directory of another user is accepted")
	}
}

// E102 and E115: only sockets in directories that ebb could have made are removed at the start, and
// nothing with a similar name or form.
//
//ebb:invariant I6 At startup, ebb removes from the socket directory only entries of exactly the form that ebb creates
func TestLeftSockets(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	in := dirs(t)
	socket := func(dir, name string) {
		t.Helper()
		path := filepath.Join(dir, name)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		_ = l.Close()
	}
	made := func(name string, mode os.FileMode, fill func(dir string)) string {
		t.Helper()
		dir := filepath.Join(in, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		fill(dir)
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	out := func(dir string) { socket(dir, "out") }
	goes := []string{
		made("0000000000000001", 0o711, out),
		made("0000000000000002", 0o700, func(string) {}), // ebb was killed while it made the directory
	}
	elsewhere := filepath.Join(dirs(t), "0000000000000009")
	if err := os.Mkdir(elsewhere, 0o711); err != nil {
		t.Fatal(err)
	}
	socket(elsewhere, "out")
	linked := filepath.Join(in, "0000000000000003")
	if err := os.Symlink(elsewhere, linked); err != nil {
		t.Fatal(err)
	}
	stays := []string{
		linked, filepath.Join(elsewhere, "out"),
		made("0000000000000004", 0o755, out), // with another mode
		filepath.Join(made("0000000000000005", 0o711, func(dir string) { socket(dir, "in") }), "in"),
		filepath.Join(made("0000000000000006", 0o711, func(dir string) { _ = os.WriteFile(filepath.Join(dir, "out"), nil, 0o600) }), "out"),
		filepath.Join(made("0000000000000007", 0o711, func(dir string) { out(dir); _ = os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600) }), "out"),
		filepath.Join(made("backup", 0o711, out), "out"),
	}
	if err := b.place(in); err != nil {
		t.Fatal(err)
	}
	for _, path := range goes {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	for _, path := range stays {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is gone", path)
		}
	}
}
