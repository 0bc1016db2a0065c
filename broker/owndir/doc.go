// Package owndir opens directories that belong to ebb's own user and that no other user can enter.
// No other user can therefore plant or read files in them.
//
//	owndir.go       Open, with the checks
//	owner_unix.go   Ours: whether ebb's user owns a file (owner_other.go: systems without owners)
package owndir
