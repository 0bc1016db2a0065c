package main

import "syscall"

// noCore has the kernel write nothing of this process' memory, which holds credentials, to a file when
// it crashes, and hand it to no program that collects such files: a limit of 1 means that where a limit
// of 0 does not (core(5), do_coredump of Linux). What this process starts has the limit, too, and may
// raise it again: the hard one stays.
func noCore() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &l); err != nil {
		return err
	}
	l.Cur = min(l.Max, 1)
	return syscall.Setrlimit(syscall.RLIMIT_CORE, &l)
}
