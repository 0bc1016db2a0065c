// Package collector bounds the garbage of a process by bytes, not by a multiple of its live memory.
// Importing it is enough. If the environment variable GOGC is set, the package does nothing.
//
// By default Go collects for the first time at a heap of 4 MiB, which a command reaches while its
// packages are initialized. About half of the packages are initialized before this one, because it
// imports runtime/debug (Go specification, "Program initialization"). They allocate 1 MB.
package collector
