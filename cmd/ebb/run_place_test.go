package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// socketIn creates a directory of a mode with sockets and other files in it.
func socketIn(t *testing.T, mode os.FileMode, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOpenOut: (E115) for every path that an ebb returns, a sandbox gets only a
// directory with a socket and nothing else, whose owner could be ebb.
//
//ebb:invariant I6 Whatever socket path ebb's response names, a sandbox gets only a directory that contains one socket and that ebb could have created
func TestOpenOut(t *testing.T) {
	t.Parallel()
	c := &cli{url: "https://ebb.example.com"}
	good := socketIn(t, 0o711, "out")
	dir, err := (runReport{c}).openOut(filepath.Join(good, "out"))
	if err != nil {
		t.Fatal(err)
	}
	_ = dir.Close()
	file := socketIn(t, 0o711)
	if err := os.WriteFile(filepath.Join(file, "out"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := socketIn(t, 0o711, "out")
	if err := os.WriteFile(filepath.Join(full, "id_ed25519"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	to := socketIn(t, 0o711)
	if err := os.Symlink(filepath.Join(good, "out"), filepath.Join(to, "out")); err != nil {
		t.Fatal(err)
	}
	hostile := map[string]string{
		"relative": "out", "another name": filepath.Join(socketIn(t, 0o711, "in"), "in"), "no socket": filepath.Join(file, "out"), "more than a socket": filepath.Join(full, "out"),
		"open to others": filepath.Join(socketIn(t, 0o755, "out"), "out"), "a link to a socket": filepath.Join(to, "out"), "a home": filepath.Join(filepath.Dir(good), "out"),
	}
	for name, path := range hostile {
		if dir, err := (runReport{c}).openOut(path); !errors.Is(err, sandbox.ErrPlace) && !(name == "a home" && errors.Is(err, os.ErrNotExist)) {
			t.Errorf("%s: %v, %v", name, dir, err)
		}
	}
	if dir, err := (runReport{c}).openOut(filepath.Join(link, "out")); err == nil {
		t.Errorf("a link to a directory: %v", dir.Name())
	}
}

// TestOpenOutOfSomebodyElse: (E115) ... and none of another user.
//
//ebb:invariant I6 Whatever socket path ebb's response names, a sandbox gets only a directory that contains one socket and that ebb could have created
func TestOpenOutOfSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "only root can give a directory away")
	}
	c, other := &cli{url: "https://ebb.example.com"}, socketIn(t, 0o711, "out")
	if err := os.Chown(other, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if dir, err := (runReport{c}).openOut(filepath.Join(other, "out")); !errors.Is(err, sandbox.ErrPlace) {
		t.Errorf("%v, %v", dir, err)
	}
}

// TestPrivate: the paths of ebb are all passed to the kind of the sandbox.
//
//ebb:invariant I6 A sandbox cannot mount ebb's own files, such as its configuration, data and keys
func TestPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ebb.yaml")
	if err := os.Mkdir(filepath.Join(dir, "policies"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "data_dir: " + dir + "/data\npolicy_dir: " + dir + "/policies\negress: {dir: " + dir + "/egress}\nlisten_unix: " + dir + "/api/socket\nsigning: {keys_dir: " + dir + "/signing}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cli{configFile: file, keyFile: dir + "/my.key", caFile: dir + "/ca.pem"}
	all, err := (runCommand{c}).private(dir + "/run")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, path := range all {
		got[path] = true
	}
	for _, want := range []string{"run", "data", "data/operator.key", "ebb.yaml", "my.key", "ca.pem", "policies", "egress", "api/socket", "signing"} {
		if !got[filepath.Join(dir, want)] {
			t.Errorf("%s is not private: %v", want, got)
		}
	}
	if err := os.WriteFile(file, []byte("data_dri: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := (runCommand{c}).private(dir); err == nil {
		t.Errorf("of an ebb whose configuration cannot be read: %v", all)
	}
}
