// Package transcript keeps what was written down of requests that left through egress, and of
// their answers, in files of one directory. What may be written down, and what is taken out of it
// before, says package egress; here it is bounded, found again, and erased.
//
//	transcript.go  Transcript: what is written of one request, as JSON
//	store.go       Store: its directory, and how much there is room for
//	entry.go       Entry: begins, ends, or is dropped
//	read.go        lists, counts and reads them
//	erase.go       erases what is older than it may be
//	name.go        what their files are called
//
// A transcript is a file of two lines, mode 0600: what left, written before it leaves, and what
// came back, written when that is over. One without the second is of a request that is under way,
// or that nobody knows the end of. Its name holds the time, the tasks and the lease, so that no
// index has to be kept beside it.
package transcript
