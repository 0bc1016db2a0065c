// Package pty puts a terminal of its own between a person's and a command in a box: what
// the command does to its terminal it does not do to the person's.
//
//	pair.go    Pair: a pseudo-terminal, and the person's terminal in raw mode while it is used
//	other.go   none but on Linux
package pty
