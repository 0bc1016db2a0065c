//go:build linux

package seccomp

import (
	"golang.org/x/sys/unix"
)

// legacy are calls of arm64 whose names or numbers other architectures do not
// share.
var legacy = []uint32{unix.SYS_NEWFSTATAT, unix.SYS_RENAMEAT, unix.SYS_FADVISE64}
