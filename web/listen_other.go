//go:build !linux

package web

import "syscall"

// boundSilence does nothing: the system's retransmission timeout applies.
func boundSilence(string, string, syscall.RawConn) error { return nil }
