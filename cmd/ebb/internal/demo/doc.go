// Package demo is the guided tour: one task from an enrolled sandbox to nothing
// left, on real parts, with every expectation checked.
//
//	demo.go     Run: the acts in their order
//	acts.go     enrol, read, ask and approve
//	shell.go    a login on an SSH host, before and after the end
//	attacks.go  replay and theft
//	boxed.go    a hostile program in a box of ebb run: what it tries, and what it gets; cage.go that box
//	rogue.go    that program; rogue_net.go what it tries on the network
//	payments.go the API that it works with, behind the egress proxy
//	ending.go   complete, refuse everywhere, prove the record
//	stage.go    what the acts share, and how a checked expectation is printed
//	shop.go     a resource server that accepts ebb's tokens (web/verify)
//	host.go     an SSH server that accepts ebb's certificates
//	login.go    a client of it
//	sandbox.go  the sandbox: a child process that holds its key and does as told
//	remote.go   the sandbox seen from the tour
//
// The tour is the runner, the approver, the auditor and the thief. It never has
// the sandbox's key: what it knows of it comes over a pipe.
package demo
