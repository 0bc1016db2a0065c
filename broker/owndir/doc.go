// Package owndir opens directories that are of ebb's own user, and that nobody else can enter: what
// is in them nobody else has put there, and nobody else reads.
//
//	owndir.go       Open: with everything that makes one
//	owner_unix.go   Ours: whose a file is (owner_other.go where files have no such owner)
package owndir
