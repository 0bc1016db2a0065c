//go:build !linux

package egress

import (
	"errors"
	"os"
)

// OpenNamespace is an error: there are none here.
func OpenNamespace(string) (ns *os.File, inode uint64, err error) {
	return nil, 0, errors.New("only Linux has network namespaces")
}
