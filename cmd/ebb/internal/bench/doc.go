// Package bench measures an ebb over HTTP with package load, and web/verify in
// this process. It uses only what any client may use.
//
//	bench.go       Run: the measurements in their order, and their bounds
//	people.go      the runner, the sandbox and the resource server of a run
//	mint.go        own tokens, DPoP-bound, recorded before they are answered
//	introspect.go  RFC 7662 over tokens at random
//	offline.go     web/verify beside the bare signature checks it contains
//	complete.go    ending a task with few and with very many live tokens
//
// Proofs are single-use and dated, so every request is built shortly before it
// is sent and while no clock runs.
package bench
