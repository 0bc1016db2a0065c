package owndir

import (
	"errors"
	"os"
)

// ErrShared is of a directory that is not ebb's alone.
var ErrShared = errors.New("the directory must belong to the user of ebb, must not be a symbolic link, and must have mode 0700")

// Open opens an existing directory. It returns ErrShared for a link, for a directory of another
// user, and for one that other users can enter or change.
func Open(dir string) (*os.Root, error) { return open(dir, func() {}) }

// open is Open; between is what happens after the directory was looked at and before it is opened.
func open(dir string, between func()) (*os.Root, error) {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !Ours(info):
		return nil, ErrShared
	}
	between()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// The owner of the parent directory may have replaced the directory since the check (a race).
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(ErrShared, err, root.Close())
	}
	return root, nil
}
