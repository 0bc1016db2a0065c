package egress_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"ebb/broker"
	"ebb/broker/brokertest/counterpart"
	"ebb/broker/egress"
)

// place opens boxes in a directory.
func (b *bed) place(dir string) error {
	boxes, err := egress.NewBoxes(egress.BoxConfig{Proxy: b.proxy, Runners: b.Broker, Dir: dir, Identity: broker.BoxBySocket})
	if err == nil {
		err = boxes.Close()
	}
	return err
}

// dirs is a directory with a short path.
func dirs(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb-boxes-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// E115: a directory that others can enter or change, somebody else's, and a link are no place
// for sockets of boxes.
func TestPlaceOfBoxes(t *testing.T) {
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

// ... nor is one of another user.
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
		t.Error("somebody else's directory is taken")
	}
}

// E102 and E115: what is removed at the start are sockets in directories as ebb makes them, and nothing
// else that is called or looks like one.
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
		made("0000000000000002", 0o700, func(string) {}), // killed while it was made
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
		made("0000000000000004", 0o755, out), // of another form
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
