package owndir

import (
	"errors"
	"os"
)

// ErrShared is of a directory that is not ebb's alone.
var ErrShared = errors.New("it must be a directory of ebb's own user, no link, that nobody else can enter: mode 0700")

// Open opens a directory that is there. One that others can enter or change, somebody else's, and a
// link are ErrShared.
func Open(dir string) (*os.Root, error) {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !Ours(info):
		return nil, ErrShared
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return same(info, root)
}

// same closes a root that is not the directory that was looked at: between the two somebody who owns
// the one above could have put another there.
func same(looked os.FileInfo, root *os.Root) (*os.Root, error) {
	if opened, err := root.Stat("."); err != nil || !os.SameFile(looked, opened) {
		return nil, errors.Join(ErrShared, err, root.Close())
	}
	return root, nil
}
