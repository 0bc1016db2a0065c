//go:build linux && !amd64 && !arm64

package seccomp

// Other architectures have no filter.
var common, legacy []uint32
