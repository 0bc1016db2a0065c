// Package place says which places of the machine a box may have, and opens them: what was checked
// is what is open.
//
//	place.go    Places: what is given to no box
//	mounts.go   Of: what a box has of the machine beside its programs
//	other.go    none but on Linux
package place
