//go:build linux

package handover

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Order is what the first process is to do.
type Order struct {
	Argv, Env []string
	Ports     map[int]string    // of loopback, and the sockets that they lead to
	Direct    map[string]string // addresses of loopback, and the hosts that they stand for
	Files     uint64            // open ones, of each process
	TTY       bool              // standard input is a terminal that becomes the command's
	Readable  bool              // processes of the same user may look into this one
}

// Descriptors are those of standard input, output and error, where box.Status is written, and
// whence comes the byte that lets the command begin.
type Descriptors [5]*os.File

// Send hands over. The descriptors remain open here.
func Send(c *net.UnixConn, o Order, d Descriptors) error {
	var fds []int
	for _, f := range d {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.WriteMsgUnix([]byte{1}, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("handing over descriptors: %w", err)
	}
	return gob.NewEncoder(c).Encode(o)
}

// Receive takes what Send hands over.
func Receive(c *net.UnixConn) (o Order, d Descriptors, err error) {
	rights := make([]byte, unix.CmsgSpace(len(d)*4))
	n, got, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil || n != 1 {
		return o, d, errors.Join(errors.New("nothing is handed over"), err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:got])
	if err != nil || len(messages) != 1 {
		return o, d, errors.Join(errors.New("no descriptors are handed over"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	for i, fd := range fds {
		if i < len(d) {
			d[i] = os.NewFile(uintptr(fd), "handed over")
		}
	}
	if err != nil || len(fds) != len(d) {
		return o, d, errors.Join(fmt.Errorf("%d descriptors are handed over", len(fds)), err)
	}
	return o, d, gob.NewDecoder(c).Decode(&o)
}
