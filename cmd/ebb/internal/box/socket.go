package box

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// OpenSocketDir opens the directory of a socket for Spec.Sockets. Whoever names the socket may
// be hostile: the directory must be of one of the owners, others may at most pass through it
// (mode 0711 or tighter), and the socket is all that is in it. What was checked is what is
// open, whatever becomes of the path.
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
		return fmt.Errorf("%w: its directory belongs to somebody else", ErrPlace)
	case info.Mode().Perm()&^0o711 != 0:
		return fmt.Errorf("%w: others can do more with its directory (mode %04o) than pass", ErrPlace, info.Mode().Perm())
	}
	in, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	if len(in) != 1 || in[0].Name() != name || in[0].Type() != fs.ModeSocket {
		return fmt.Errorf("%w: its directory does not hold a socket of this name and nothing else", ErrPlace)
	}
	return nil
}
