package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web/wire"
)

// farPlace is the checked place of an egress endpoint on this machine. It is
// checked before the endpoint is opened at ebb, so that a typing error leaves
// no entry in the audit log.
type farPlace struct {
	listener net.Listener // with --listen

	dir string // with --dir

	// pinned is the sandbox's network namespace, nil with --anybody, and
	// namespace its inode. The file stays open until the command ends, so that
	// the kernel cannot reuse the inode number.
	pinned    *os.File
	namespace uint64
}

// place checks the paths and the address that the flags name. check must have
// accepted the flags.
func (f *farFlags) place() (*farPlace, error) {
	if err := mayHold(f.ca); err != nil {
		return nil, fail("write the CA certificate: "+err.Error(), otherCA)
	}
	if f.listen != "" {
		l, err := net.Listen("tcp", f.listen)
		if err != nil {
			return nil, fail(err.Error(), "choose another port with --listen")
		}
		return &farPlace{listener: l}, nil
	}
	p := &farPlace{dir: filepath.Clean(f.dir)} // with a trailing slash Lstat would follow a link
	if err := ownPlace(p.dir); err != nil {
		return nil, err
	}
	if f.namespace == "" {
		return p, nil
	}
	err := egress.CheckKernel()
	if err != nil {
		return nil, fail(err.Error(), "use a newer kernel, or --anybody with a socket that only the sandbox can reach")
	}
	if p.pinned, p.namespace, err = egress.OpenNamespace(f.namespace); err != nil {
		return nil, fail(err.Error(), "name the network namespace of a running process of the sandbox, like /proc/PID/ns/net")
	}
	return p, nil
}

// otherCA is the next step if the certificate cannot be written.
const otherCA = "name a file in a writable directory with --ca"

// mayHold refuses a path at which replaceFile would fail, as far as it can be
// tested: it does not detect a mount point, or a file that another user owns in
// a sticky directory.
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

// doorAdvice returns the next step for an error of NewListener: advice, unless
// the error is in ebb's response.
func doorAdvice(err error, advice string) string {
	if errors.Is(err, egress.ErrEndpointID) {
		return "check that --url is your ebb's"
	}
	return advice
}

// close releases the place. The listener may have been closed before.
func (p *farPlace) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	if p.pinned != nil {
		_ = p.pinned.Close()
	}
}

// ownPlace refuses a directory that other users can access, or whose path is
// too long for a socket in it. dir must be a clean path.
func ownPlace(dir string) error {
	if err := ownAlone(dir, os.Lstat, 0o077); err != nil {
		return fail(err.Error(), "name a directory of this user with --dir, with mode 0700 and not a symbolic link, and mount the directory created in it into the sandbox")
	}
	if !config.FitsSocket(dir) {
		return fail(dir+" is too long: a socket in it would exceed the limit of a socket path", "name a directory with a shorter path with --dir")
	}
	return nil
}

// farDoor returns the listener for the connections of the sandbox. Closing it
// also closes the listener of the place.
func (c egressCommand) farDoor(b wire.Box, f farFlags, p *farPlace) (net.Listener, farBox, error) {
	shown := farBox{Box: b, CAFile: f.ca}
	if p.listener != nil {
		shown.Listen = p.listener.Addr().String()
		return p.listener, shown, nil
	}
	by := broker.BoxBySocket
	if p.pinned != nil {
		by = broker.BoxByKernel
	}
	door, err := egress.NewListener(p.dir, coreBox(b), by, runReport(c).strangers())
	if err != nil {
		return nil, shown, fail("create the socket: "+err.Error(), doorAdvice(err, "check that --dir is writable and has free space"))
	}
	if p.pinned != nil {
		if err := door.Register(p.namespace); err != nil {
			return nil, shown, errors.Join(fail(err.Error(), "name the sandbox's network namespace with --network-namespace"), door.Close())
		}
	}
	shown.Socket = door.Socket()
	return door, shown, nil
}
