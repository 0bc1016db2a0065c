package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"

	"ebb/broker"
	"ebb/broker/egress"
	"ebb/cmd/ebb/internal/config"
)

// farPlace is where the way out of a box will be. It is looked at before the box is opened, so that a
// typing error is on no record.
type farPlace struct {
	listener net.Listener // with --listen

	dir string // with --dir

	// The sandbox's network namespace, nil with --anybody, and its inode. It is open until this process is
	// done, so that its number is nobody else's meanwhile.
	pinned    *os.File
	namespace uint64
}

// place looks at what the flags say, which check has found in order.
func (f *farFlags) place() (*farPlace, error) {
	if err := mayHold(f.ca); err != nil {
		return nil, fail("the certificate cannot be written: "+err.Error(), otherCA)
	}
	if f.listen != "" {
		l, err := net.Listen("tcp", f.listen)
		if err != nil {
			return nil, fail(err.Error(), "choose another port with --listen")
		}
		return &farPlace{listener: l}, nil
	}
	p := &farPlace{dir: filepath.Clean(f.dir)} // of what ends in a slash Lstat follows a link
	if err := ownPlace(p.dir); err != nil {
		return nil, err
	}
	if f.namespace == "" {
		return p, nil
	}
	err := egress.KernelKnows()
	if err != nil {
		return nil, fail(err.Error(), "take a newer kernel, or --anybody with a socket that nobody else reaches")
	}
	if p.pinned, p.namespace, err = egress.OpenNamespace(f.namespace); err != nil {
		return nil, fail(err.Error(), "name the network namespace of a process of the sandbox that lives, like /proc/PID/ns/net")
	}
	return p, nil
}

// otherCA is what to do where the certificate cannot be written.
const otherCA = "name a file in a directory that can be written to with --ca"

// mayHold refuses a path at which replaceFile would fail, where that can be seen: what is mounted there, or
// is somebody else's, it does not.
func mayHold(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New(path + " is a directory")
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ebb-")
	if err != nil {
		return err
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// doorAdvice is what to do about an error of NewDoor: advice, unless what ebb said is the cause.
func doorAdvice(err error, advice string) string {
	if errors.Is(err, egress.ErrBoxID) {
		return "check that --url is your ebb's"
	}
	return advice
}

// close may come after a listener was closed by what served it.
func (p *farPlace) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	if p.pinned != nil {
		_ = p.pinned.Close()
	}
}

// ownPlace refuses a directory, of a clean path, that is not of this user alone, or has no room for the
// path of a socket.
func ownPlace(dir string) error {
	if err := ownAlone(dir, os.Lstat, 0o077); err != nil {
		return fail(err.Error(), "name a directory of this user with --dir, of mode 0700 and no link, and mount what is made in it into the sandbox")
	}
	if !config.FitsSocket(dir) {
		return fail(dir+" is too long for the path of a socket in it", "name a directory with a shorter path with --dir")
	}
	return nil
}

// farDoor is what the connections of the sandbox come by. Its end is also that of the place's listener.
func (c *cli) farDoor(b broker.Box, f farFlags, p *farPlace) (net.Listener, farBox, error) {
	shown := farBox{Box: b, CAFile: f.ca}
	if p.listener != nil {
		shown.Listen = p.listener.Addr().String()
		return p.listener, shown, nil
	}
	by := broker.BoxBySocket
	if p.pinned != nil {
		by = broker.BoxByKernel
	}
	door, err := egress.NewDoor(p.dir, b, by, c.strangers())
	if err != nil {
		return nil, shown, fail("the socket cannot be made: "+err.Error(), doorAdvice(err, "see that --dir can be written to and has room"))
	}
	if p.pinned != nil {
		if err := door.Register(p.namespace); err != nil {
			return nil, shown, errors.Join(fail(err.Error(), "name the namespace of the sandbox with --network-namespace"), door.Close())
		}
	}
	shown.Socket = door.Socket()
	return door, shown, nil
}
