//go:build unix

package egress

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether a file is of the user that ebb runs as.
func ours(i fs.FileInfo) bool {
	st, is := i.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == os.Geteuid()
}
