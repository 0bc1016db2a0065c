//go:build race

package main

// buildFlags build the binary of the scripts like the tests.
var buildFlags = []string{"-race"}
