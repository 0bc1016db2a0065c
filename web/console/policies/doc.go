// Package policies shows the policies in force on the console, and takes a
// change of them from a draft to a release.
//
// policies.go shows the policies in force and the releases. trial.go tests a request against them.
// draft.go shows a draft. Its author edits it file by file (draft_file.go), and can decide past
// requests with it (replay.go). A second person publishes it, and must prove their identity
// (package proof). pages.go lists the routes and the calls of the core.
package policies
