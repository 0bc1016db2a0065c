package web

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence sets TCP_USER_TIMEOUT (tcp(7)), which accepted connections inherit.
func boundSilence(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	if err == nil {
		err = set
	}
	return err
}
