//go:build !linux

package main

import "os"

// networkNamespace is an error: there are none here.
func networkNamespace(string) (*os.File, uint64, error) {
	return nil, 0, fail("only Linux has network namespaces", "take --anybody with a socket that nobody else reaches")
}
