//go:build linux

package shim

import (
	"fmt"
	"os"
)

// init runs the shim of a sandbox that inherits descriptors, before Go initializes the packages of
// ebb's other commands: that takes 15 ms of the 20 ms in which this process would start. Go
// initializes the package with the first import path among those whose imports are initialized
// (Go specification, "Program initialization"). This package imports little, so that it comes early.
// A command line that cannot be parsed is left to the command `ebb shim`, which reports it.
func init() {
	if len(os.Args) < 3 || os.Args[1] != "shim" || os.Args[2] != "--status-fd" {
		return
	}
	c, err := Parse(os.Args[2:])
	if err != nil {
		return
	}
	code, err := Run(c)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ebb: %v\n", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
