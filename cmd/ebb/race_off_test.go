//go:build !race

package main

// buildFlags make the binary of the scripts like the tests themselves.
var buildFlags []string
