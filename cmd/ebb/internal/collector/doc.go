// Package collector bounds the garbage of a process by bytes, not by a multiple of its live memory.
// Importing it is enough. If the environment variable GOGC is set, the package does nothing.
//
// Go's default collects at 4 MiB for the first time, so that a command that ends at once would
// collect several times while its packages are initialized. This package imports little, so that it
// is initialized before almost all others (Go specification, "Program initialization").
package collector
