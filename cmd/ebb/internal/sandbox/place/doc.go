// Package place decides which paths of the machine a sandbox may have, and
// opens them, so that the checked file is the mounted one.
//
//	place.go    places: the paths that no sandbox may have
//	mounts.go   Of: the paths of the machine in a sandbox, except its programs
//	other.go    systems other than Linux: nothing
package place
