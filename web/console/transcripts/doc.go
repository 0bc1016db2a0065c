// Package transcripts shows recorded requests of sandboxes on the console.
//
// list.go lists and exports the transcripts of this ebb, without headers and
// bodies. transcript.go shows a whole one; the core writes the audit entry of
// that read first. All text in a transcript is escaped, because a sandbox or a
// third party wrote it. pages.go lists the routes and the calls of the core.
package transcripts
