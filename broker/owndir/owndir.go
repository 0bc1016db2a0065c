package owndir

import (
	"errors"
	"os"
)

// ErrShared is of a directory that is not ebb's alone.
var ErrShared = errors.New("it must be a directory of ebb's own user, no link, that nobody else can enter: mode 0700")

// Open opens a directory that is there. One that others can enter or change, somebody else's, and a
// link are ErrShared.
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
	// Meanwhile somebody who owns the directory above could have put another one there.
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(ErrShared, err, root.Close())
	}
	return root, nil
}
