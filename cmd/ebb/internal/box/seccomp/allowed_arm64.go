//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// legacy are calls of this machine that others know by another name.
var legacy = []uint32{unix.SYS_NEWFSTATAT, unix.SYS_RENAMEAT, unix.SYS_FADVISE64}
