package egress

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenNamespace opens a network namespace that is not this process's, and says its inode for Register.
// While the file is open that number is nobody else's. Any other file has an inode, too, which nobody who
// connects would ever be in.
func OpenNamespace(path string) (ns *os.File, inode uint64, err error) {
	ns, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would have this wait for a writer
	if err != nil {
		return nil, 0, err
	}
	if inode, err = namespaceOf(ns); err != nil {
		return nil, 0, errors.Join(err, ns.Close())
	}
	return ns, inode, nil
}

func namespaceOf(ns *os.File) (uint64, error) {
	if kind, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return 0, errors.New(ns.Name() + " is no network namespace")
	}
	info, err := ns.Stat()
	if err != nil {
		return 0, err
	}
	own, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return 0, fmt.Errorf("this process's own network namespace is not known: %w", err)
	}
	if os.SameFile(info, own) {
		return 0, errors.New(ns.Name() + " is the network namespace that this process is in itself: who is in it is in no sandbox")
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}
