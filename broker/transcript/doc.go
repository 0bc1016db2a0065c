// Package transcript stores selected requests through egress, with their responses, as files in
// one directory. Package egress selects the requests and redacts secrets before the text arrives
// here. This package bounds the space, lists and reads the files, and erases old ones.
//
//	transcript.go  Transcript: the content of one file, as JSON
//	store.go       Store: the directory and its space limits
//	entry.go       Entry: a transcript whose request is under way; Begin, End, Drop
//	read.go        List, Count, Read
//	erase.go       erases transcripts that are older than the limit
//	name.go        file names
//
// A transcript is a file with mode 0600 and two lines. The request is written before it is sent.
// The response is written when it is complete. A file with one line belongs to a request that is
// under way, or whose end is unknown because ebb stopped. The file name holds the time, the tasks
// and the lease, so that no separate index is needed.
package transcript
