// Package stdio is what a command in a box has for standard input, output and error: a
// terminal of its own or pipes, and never what the person has. Who has a descriptor can open
// what is behind it again, for reading and for writing: a file that somebody only let it
// append to, a directory, a terminal, whose input it could read and write.
//
//	streams.go  Streams: which stream is made of what
//	pair.go     pair: a pseudo-terminal, and the person's terminal in raw mode while it is used
//	pass.go     what comes out of the box is passed on until the box is over
//	other.go    none but on Linux
package stdio
