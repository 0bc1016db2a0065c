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

// MaxSocketPath is how long the path of a unix socket may be, in bytes (unix(7),
// and four less elsewhere than on Linux).
const MaxSocketPath = 103

// socketShare is what connections of the unix socket may take of all descriptors: each
// has two, its own and that of its process. It leaves the TCP listener its half.
const socketShare = 0.125

// ListenUnix listens on a unix socket at an absolute path and asks the kernel who
// connects (see Peer). A directory that is missing is made with mode 0700; one
// that others than its owner can write to is refused, because they could put a
// socket of their own into the place. A socket that is left there is removed when
// nothing answers on it; anything else in the place stays, and is an error. Mode is
// that of the socket: who may write to it may connect. Connections beyond the
// socket's share (Conns) wait. Closing removes it.
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
	// On Linux the mode of the socket is that of what is bound, so nobody else can
	// connect before it is what it should be; elsewhere the directory has to do.
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
		return fmt.Errorf("others can write to %s (mode %04o) and could put a socket of their own there; use a directory of ebb's own", dir, info.Mode().Perm())
	}
	return nil
}

// clearPlace removes the socket that a killed process left behind. Whoever starts
// two at the same instant may lose one of them to the other: the lock on the data
// directory has refused the second by then.
func clearPlace(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket; it is left alone", path)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("another process listens on %s", path), c.Close())
	case !errors.Is(err, syscall.ECONNREFUSED): // a full queue is no sign of death
		return fmt.Errorf("it cannot be told whether another process listens on %s: %w", path, err)
	}
	return os.Remove(path)
}
