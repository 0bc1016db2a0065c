package owndir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/owndir"
)

func made(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// E115: Open refuses a directory that another user can enter or change, and a symbolic link in its place.
//
//ebb:invariant I8 Transcripts are stored in a directory and files that no other user can read: a directory that others can enter is refused
func TestOpen(t *testing.T) {
	t.Parallel()
	own := made(t, 0o700)
	dir, err := owndir.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Mkdir("a", 0o700), dir.Close()); err != nil {
		t.Error(err)
	}
	link, file := filepath.Join(own, "link"), filepath.Join(own, "file")
	if err := errors.Join(os.Symlink(filepath.Join(own, "a"), link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	shared := []string{link, file}
	for _, mode := range []os.FileMode{0o701, 0o710, 0o720, 0o705, 0o750, 0o755, 0o777, 0o777 | os.ModeSticky} {
		shared = append(shared, made(t, mode))
	}
	for _, path := range shared {
		if dir, err := owndir.Open(path); !errors.Is(err, owndir.ErrShared) {
			t.Errorf("%s: %v, %v", path, dir, err)
		}
	}
	if _, err := owndir.Open(filepath.Join(own, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}

// TestOpenOfSomebodyElse: Open refuses a directory that another user owns.
//
//ebb:invariant I8 The transcript directory is refused if another user owns it
func TestOpenOfSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		counterpart.Missing(t, "root", "only root can give a directory away")
	}
	dir := made(t, 0o700)
	if err := os.Chown(dir, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if _, err := owndir.Open(dir); !errors.Is(err, owndir.ErrShared) {
		t.Error(err)
	}
}
