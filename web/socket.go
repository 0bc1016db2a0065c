package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// MaxSocketPath is the longest path of a Unix socket in bytes. 103 is the limit
// of macOS and BSD; Linux allows 107 (unix(7)).
const MaxSocketPath = 103

// socketShare is the share of the file descriptor limit for connections of the
// Unix socket. Each connection needs two descriptors, its own and that of its
// process, so that the TCP listener keeps its half.
const socketShare = 0.125

// ListenUnix listens on a Unix socket at an absolute path and asks the kernel for the process of
// each connection (see Peer). It creates a missing directory with mode 0700. It refuses a directory
// that others can write to, because they could replace the socket. It removes a stale socket that
// nothing listens on; any other file at the path is an error. mode is the mode of the socket: write
// permission allows connecting. Connections beyond the share of the socket (Conns) wait. Closing
// the listener removes the socket.
func ListenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if !filepath.IsAbs(path) || len(path) > MaxSocketPath {
		return nil, fmt.Errorf("the path of a unix socket must be absolute and at most %d bytes long", MaxSocketPath)
	}
	if err := socketDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := clearPlace(ctx, path); err != nil {
		return nil, err
	}
	// On Linux the socket file gets the mode of the bound descriptor, so that others cannot connect
	// before Chmod. On other systems the directory must protect it.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}}
	l, err := private.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &peerListener{l.(*net.UnixListener), newSlots(Conns(socketShare))}, nil
}

func socketDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("directory %s (mode %04o) is writable by others, who could replace the socket; use a directory with mode 0700", dir, info.Mode().Perm())
	}
	return nil
}

// clearPlace removes the socket that a killed process left. Two processes that
// start at the same instant could remove each other's socket, but the lock on
// the data directory refuses the second one before.
func clearPlace(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another path", path)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("another process listens on %s", path), c.Close())
	case !errors.Is(err, syscall.ECONNREFUSED): // a full queue is not a refusal
		return fmt.Errorf("cannot determine whether another process listens on %s: %w", path, err)
	}
	return os.Remove(path)
}
