// Package policysource loads the policy set in force and loads it again when its origin changes.
// The origin is a directory, the newest published release, or the built-in set.
//
//	source.go   Source: Open, Look, Watch
//	dir.go      policies in a directory
//	releases.go published releases in the database
package policysource
