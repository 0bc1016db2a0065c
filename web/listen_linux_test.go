package web_test

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/web"
)

// Unacknowledged data breaks a connection after the timeout, which accepted
// connections inherit from their listener.
func TestSilenceIsBounded(t *testing.T) {
	t.Parallel()
	l, err := web.ListenTCP(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	taken, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	raw, err := taken.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	if cerr := raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if ms != 20_000 {
		t.Errorf("unacknowledged data is sent for %d ms", ms)
	}
}
