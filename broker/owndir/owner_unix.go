//go:build unix

package owndir

import (
	"io/fs"
	"os"
	"syscall"
)

// Ours reports whether a file is of the user that ebb runs as.
func Ours(i fs.FileInfo) bool {
	st, is := i.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == os.Geteuid()
}
