//go:build race

package main

// buildFlags build the binary of the scripts like the tests. SQLite without
// checkptr, as .ci/run builds the tests: with it, the modernc.org packages
// and all that import them would be compiled a second time, and processes
// that store something would use about twice the processor time.
var buildFlags = []string{"-race", "-gcflags=modernc.org/...=-d=checkptr=0"}
