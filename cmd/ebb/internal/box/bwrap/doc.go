// Package bwrap makes boxes with bubblewrap: every namespace its own, no capability, no
// network but a loopback that nothing else is on, the machine's programs read-only, and the
// filter of package seccomp. The first process of a box is the shim of this binary.
//
//	kind.go     Kind, and what it needs of a machine
//	start.go    start: descriptors, the box's identity, the shim's reports
//	args.go     what bubblewrap is told
//	lowports.go ports that hosts have, without a capability
//	stage.go    root starts a box as somebody else
//	other.go    no box but on Linux
//
// What comes in which order: bubblewrap is started, makes the namespaces, says on a descriptor
// which they are, furnishes the box and becomes the shim, which says that it waits; whoever
// wants to know of the box is told (Spec.Ready); only then the shim gets the byte that lets it
// start the command. The end of that pipe lets nothing start.
package bwrap
