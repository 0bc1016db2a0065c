package box

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// OpenSocketDir opens the directory of a socket for Spec.Sockets. The path may
// come from a hostile process: the directory must belong to one of the owners,
// other users may at most traverse it (mode 0711 or stricter), and the socket
// must be its only entry. The open directory is the checked one, even if the
// path is replaced.
func OpenSocketDir(socket string, owners ...uint32) (*os.File, error) {
	dir, err := os.OpenFile(filepath.Dir(socket), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := checkSocketDir(dir, filepath.Base(socket), owners); err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	return dir, nil
}

func checkSocketDir(dir *os.File, name string, owners []uint32) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	st, is := info.Sys().(*syscall.Stat_t)
	switch {
	case !is || !slices.Contains(owners, st.Uid):
		return fmt.Errorf("%w: its directory belongs to another user", ErrPlace)
	case info.Mode().Perm()&^0o711 != 0:
		return fmt.Errorf("%w: its directory has mode %04o; it must be 0711 or stricter", ErrPlace, info.Mode().Perm())
	}
	in, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	if len(in) != 1 || in[0].Name() != name || in[0].Type() != fs.ModeSocket {
		return fmt.Errorf("%w: its directory must contain a socket of this name and nothing else", ErrPlace)
	}
	return nil
}
