package egress

import (
	"io/fs"
	"os"
	"regexp"
	"slices"

	"ebb/broker/owndir"
)

// Directories of boxes are called and look like this: those that ebb makes, and those
// that it was killed over.
var socketDirs = regexp.MustCompile(`^[0-9a-f]{16}$`)

const socketDirMode = 0o711

// clearSockets makes the directory of boxes and removes what an earlier process left in
// it. A directory that others can enter or change is refused: a socket there is
// anybody's. What is not as ebb makes it is left alone.
func clearSockets(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := owndir.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range list {
		if socketDirs.MatchString(e.Name()) {
			clearBox(root, e.Name())
		}
	}
	return nil
}

// clearBox removes a socket that nobody listens at any more, with its directory.
func clearBox(root *os.Root, name string) {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() || !slices.Contains([]fs.FileMode{0o700, socketDirMode}, info.Mode().Perm()) || !owndir.Ours(info) {
		return
	}
	in, err := fs.ReadDir(root.FS(), name)
	if err != nil || len(in) == 1 && (in[0].Name() != socketName || in[0].Type() != fs.ModeSocket) {
		return
	}
	if len(in) == 1 {
		_ = root.Remove(name + "/" + socketName)
	}
	_ = root.Remove(name)
}
