// Package demo is the guided tour: one task from the enrolment of its sandbox until
// every credential is revoked, with real services and every expectation checked.
//
// Run plays the acts in their order: enrol, read, request and approve; a login on an SSH host;
// replay and theft; a hostile program in a sandbox of ebb run; and the completion of the task, after
// which everything must be refused and the audit log is verified. The services are real: an API
// behind the egress proxy, a resource server that accepts ebb's tokens (web/verify), and an SSH
// server that accepts its certificates. The sandbox is a child process that holds its key and
// executes orders.
//
// The tour acts as the runner, the approver, the auditor and the thief. It never has
// the sandbox's key, and talks to the sandbox only through a pipe.
package demo
