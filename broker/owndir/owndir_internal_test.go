package owndir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A directory that has taken the place of the one that was looked at is not opened.
//
//ebb:invariant I8 The transcript directory is refused if it is replaced between its check and its opening
func TestOpenSwapped(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir, other := filepath.Join(above, "dir"), filepath.Join(above, "other")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(other, 0o700)); err != nil {
		t.Fatal(err)
	}
	root, err := open(dir, func() {
		if err := errors.Join(os.Rename(dir, dir+".old"), os.Rename(other, dir)); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, ErrShared) || root != nil {
		t.Errorf("%v, %v", root, err)
	}
	if root, err = Open(dir); err != nil {
		t.Fatalf("when nobody swaps it: %v", err)
	}
	_ = root.Close()
}
