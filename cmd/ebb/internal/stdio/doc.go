// Package stdio creates standard input, output and error of a command in a sandbox: a
// terminal of its own or pipes, never the descriptors of the user. A process can open the
// file behind a descriptor again (/proc/self/fd), for reading and writing: a file that was
// opened only for appending, a directory, or a terminal whose input it could read and write.
//
// Streams decides the kind of each stream. A pair is a pseudo-terminal; the user's terminal is in raw
// mode meanwhile. Output of the sandbox is copied until the sandbox has ended.
package stdio
