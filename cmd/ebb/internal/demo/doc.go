// Package demo is the guided tour: one task from the enrolment of its sandbox until
// every credential is revoked, with real services and every expectation checked.
//
//	demo.go     Run: the acts in their order
//	acts.go     enrol, read, request and approve
//	shell.go    a login on an SSH host, before and after the task ends
//	attacks.go  replay and theft
//	boxed.go    a hostile program in a sandbox of ebb run: its attempts and results; cage.go that sandbox
//	rogue.go    that program; rogue_net.go its attempts on the network
//	payments.go the API that it works with, behind the egress proxy
//	ending.go   complete the task, check that everything is refused, verify the audit log
//	stage.go    state shared by the acts, and the output of a checked expectation
//	shop.go     a resource server that accepts ebb's tokens (web/verify)
//	host.go     an SSH server that accepts ebb's certificates
//	login.go    a client of it
//	sandbox.go  the sandbox: a child process that holds its key and executes orders
//	remote.go   the tour's side of that process
//
// The tour acts as the runner, the approver, the auditor and the thief. It never has
// the sandbox's key, and talks to the sandbox only through a pipe.
package demo
