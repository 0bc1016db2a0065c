// Package bench measures an ebb over HTTP with package web/load, and web/verify in
// this process. It uses only what any client may use.
//
//	bench.go       Run: the measurements in their order, and their bounds
//	people.go      the runner, the sandbox and the resource server of a run
//	mint.go        own tokens, DPoP-bound, recorded before they are answered
//	introspect.go  RFC 7662 over tokens at random
//	offline.go     web/verify beside the bare signature checks it contains
//	complete.go    ending a task with few and with very many live tokens
//
// What a window measures is the server's work. Proofs are single-use and dated,
// so the proofs of a window are signed shortly before it, on all cores, while no
// clock runs; a nonce that the server wants is fetched before that. The tokens in
// the answers are read after it. What is left to the client is a write and a read
// for each request, and its processor time stands in the report.
package bench
