// Package policysource keeps the policy set in force equal to where policies come from: a
// directory, what was published, or the set built in.
//
//	source.go  Source: Open, Look, Watch
//	dir.go     a directory; releases.go  what was published
package policysource
