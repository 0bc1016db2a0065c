package command

import "syscall"

// NoCore keeps the memory of this process, which holds credentials, from being
// written to a core file or piped to a core-dump handler when the process
// crashes. The limit is 1, because a limit of 0 does not stop the handler
// (core(5), do_coredump of Linux). Child processes inherit the soft limit and
// may raise it: the hard limit is unchanged.
func NoCore() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &l); err != nil {
		return err
	}
	l.Cur = min(l.Max, 1)
	return syscall.Setrlimit(syscall.RLIMIT_CORE, &l)
}
