// Package autorun finds the files of a work directory that make programs run
// without being asked: when a user enters the directory, opens it in an editor,
// runs git status or pushes it to CI. A sandboxed command must not leave such a
// file behind for the user to run outside of the sandbox.
//
//	names.go    the files, by name, each with its reason
//	scan.go     scan: the files of those names in a directory
//	git.go      the files of git directories, and the settings of git that run nothing
//	links.go    files that the found ones refer to: by symbolic links, hard links, or settings
//	guard.go    Begin: the files that are read-only in the sandbox
//	end.go      End: the files that have changed, and those that are set aside
//	other.go    systems other than Linux: nothing
package autorun
