// Package stdio creates standard input, output and error of a command in a sandbox: a
// terminal of its own or pipes, never the descriptors of the user. A process can open the
// file behind a descriptor again (/proc/self/fd), for reading and writing: a file that was
// opened only for appending, a directory, or a terminal whose input it could read and write.
//
//	streams.go  Streams: the kind of each stream
//	pair.go     pair: a pseudo-terminal, and raw mode of the user's terminal meanwhile
//	pass.go     copies the output of the sandbox until the sandbox has ended
//	other.go    systems other than Linux: nothing
package stdio
