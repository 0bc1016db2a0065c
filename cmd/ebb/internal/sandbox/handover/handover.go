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

// Order is the command for the first process, and its settings.
type Order struct {
	Argv, Env []string
	Ports     map[int]string    // ports of loopback, and the sockets to which they lead
	Direct    map[string]string // addresses of loopback, and the hosts to which they lead
	Files     uint64            // maximum number of open files of each process
	TTY       bool              // standard input is a terminal that becomes the command's
	Readable  bool              // the process stays dumpable: processes of the same user may inspect it
}

// Descriptors are standard input, output and error, the one to which sandbox.Status
// is written, and the one from which the byte is read that lets the command
// start.
type Descriptors [5]*os.File

// Send sends the order. The descriptors stay open in this process.
func Send(c *net.UnixConn, o Order, d Descriptors) error {
	var fds []int
	for _, f := range d {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.WriteMsgUnix([]byte{1}, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("send descriptors: %w", err)
	}
	return gob.NewEncoder(c).Encode(o)
}

// Receive receives the order that Send has sent.
func Receive(c *net.UnixConn) (o Order, d Descriptors, err error) {
	rights := make([]byte, unix.CmsgSpace(len(d)*4))
	n, got, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil || n != 1 {
		return o, d, errors.Join(errors.New("receive the order: no message"), err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:got])
	if err != nil || len(messages) != 1 {
		return o, d, errors.Join(errors.New("receive the order: no descriptors"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	for i, fd := range fds {
		if i < len(d) {
			d[i] = os.NewFile(uintptr(fd), "handed over")
		}
	}
	if err != nil || len(fds) != len(d) {
		return o, d, errors.Join(fmt.Errorf("receive the order: %d descriptors", len(fds)), err)
	}
	return o, d, gob.NewDecoder(c).Decode(&o)
}
