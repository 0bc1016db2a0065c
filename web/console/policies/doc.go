// Package policies shows the policies in force on the console, and takes a
// change of them from a draft to a release.
//
// policies.go shows the policies in force and the releases. trial.go tests a request against them.
// draft.go is a draft: its author edits it file by file (draft_file.go), and a second person, who
// proves who they are (package proof), publishes it. replay.go decides past requests by the draft
// first. pages.go lists the routes and the calls of the core.
package policies
