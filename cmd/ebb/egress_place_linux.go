package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// networkNamespace opens a network namespace that is not this process's, and says its inode. Any other
// file has an inode, too, which nobody who connects would ever be in.
func networkNamespace(path string) (*os.File, uint64, error) {
	ns, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would have this wait for a writer
	if err != nil {
		return nil, 0, fail(err.Error(), sandboxNamespace)
	}
	inode, err := namespaceOf(ns)
	if err != nil {
		return nil, 0, errors.Join(err, ns.Close())
	}
	return ns, inode, nil
}

// sandboxNamespace is what to do where another file was named.
const sandboxNamespace = "name the network namespace of a process of the sandbox that lives, like /proc/PID/ns/net"

func namespaceOf(ns *os.File) (uint64, error) {
	if kind, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return 0, fail(ns.Name()+" is no network namespace", sandboxNamespace)
	}
	info, err := ns.Stat()
	if err != nil {
		return 0, fail(err.Error(), sandboxNamespace)
	}
	own, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return 0, fail("this process's own network namespace is not known: "+err.Error(), "mount /proc")
	}
	if os.SameFile(info, own) {
		return 0, fail(ns.Name()+" is the network namespace that this process is in itself: who is in it is in no sandbox", sandboxNamespace)
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}
