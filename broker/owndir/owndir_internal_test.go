package owndir

import (
	"errors"
	"os"
	"testing"
)

// A directory that has taken the place of the one that was looked at is not opened.
func TestOpenSwapped(t *testing.T) {
	t.Parallel()
	looked, other := t.TempDir(), t.TempDir()
	info, err := os.Lstat(looked)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{looked: nil, other: ErrShared} {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := same(info, root); !errors.Is(err, want) || (got == nil) != (want != nil) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
		if _, err := root.Stat("."); (err == nil) != (want == nil) {
			t.Errorf("afterwards: %v", err)
		}
		_ = root.Close()
	}
}
