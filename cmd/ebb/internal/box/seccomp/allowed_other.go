//go:build linux && !amd64 && !arm64

package seccomp

// There is no filter for this machine.
var common, legacy []uint32
