// Package autorun knows the files of a work directory that make programs run by themselves: when a person
// enters the directory, opens it in an editor, asks git for its status, or pushes it to CI. A sandboxed command
// must not leave such a file behind for the person to run outside.
//
//	names.go    the files, by name, each with its reason
//	scan.go     scan: which of them a directory has
//	git.go      the files of git directories, and which settings of git run nothing
//	links.go    files that the names lead to: symbolic links, hard links, the values of settings
//	guard.go    Begin: what is read-only in the sandbox
//	end.go      End: what has changed, and what is set aside
//	other.go    none but on Linux
package autorun
