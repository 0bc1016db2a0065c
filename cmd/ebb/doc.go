// Command ebb is the broker, its command-line client and its guided tour, in one
// binary.
//
// A command is in the file of its name, with its sub-commands: `ebb task` in task.go, `ebb run` in
// run.go and the files that begin with run_. All commands share cli: the streams and environment
// of the process, the common flags, and a client of the API. A command that fails returns a failure
// with an exit code and a next step. main.go has the groups of commands; help.go, examples.go and
// complete.go add help, examples, suggestions and completion to the whole tree of commands.
//
// `ebb serve` loads the configuration and assembles a node: the stores, the keys, the kinds of
// attestors and providers, the policies, egress, notifications, and the listeners, from bottom to
// top. The node runs until it is stopped, and then closes its parts in the reverse order. `ebb demo`
// and `ebb run` can start a node inside their own process.
//
// `ebb run` opens a task, creates the sandbox, gives it an egress endpoint and the means to ask for
// credentials, watches both, and completes the task at the end. `ebb egress` does only the part of the
// endpoint, for a sandbox that another program creates.
//
//	../internal/command  exit codes and errors with a next step
//	../internal/config   the configuration: keys, sources, every problem at once
//	../internal/out      output as table, JSON or CSV, with control characters escaped
//	../internal/keyfile  private keys of clients
//	internal/contexts    the servers that a person has stored with `ebb login`
//	internal/doctest     runs the documents, for tests
//	internal/sandbox     starts a command isolated from its machine
//	internal/shim        the first process of a sandbox
//	internal/ask         the protocol by which a process in a sandbox requests credentials
//	internal/awskeys     credentials in the formats of AWS clients
//	internal/sshagent    the SSH agent, which keeps the private keys of certificates
//	internal/mcp         ebb as tools of MCP clients
//	internal/stdio       the standard streams of a sandbox
//	internal/demo        the guided tour
//	internal/history     the history of one working day, for the demo console
//
// Tests of the repository's structure are here too: layers_test.go (which package
// may import which), exits_test.go (which code may read the bytes of a secret),
// script_test.go (txtar scripts against the built binary).
package main
