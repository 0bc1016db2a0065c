// Command vaultbed serves a real HashiCorp Vault core over plain HTTP (or TLS) on loopback for integration tests, and with
// -raft to be measured beside ebb. It links Vault's own core, HTTP handler and engines as libraries and leaves out everything
// the command line pulls in. The core is initialised and unsealed on start with one key share, kept in -dir beside the data;
// so this is a test bed, never a server.
//
//	main.go     flags, the core's settings, the listener
//	engines.go  the engines, auth methods and database plugins that it has
//	core.go     where the core keeps its data; initialised once, unsealed at each start
package main
