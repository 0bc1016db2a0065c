//go:build !linux

package egress

import (
	"errors"
	"net"
	"os"
)

var errNoKernel = errors.New("the network namespace of a peer can be read on Linux only")

func newKernel() kernel { return kernel{err: errNoKernel} }

func peerOf(*net.UnixConn) (peer, error) { return peer{fd: -1}, errNoKernel }

func (peer) release() {}

// OpenNamespace returns an error: network namespaces exist on Linux only.
func OpenNamespace(string) (ns *os.File, inode uint64, err error) {
	return nil, 0, errors.New("network namespaces exist on Linux only")
}
