// Package bench measures an ebb over HTTP with package load, and web/verify
// in this process. It uses only interfaces that every client may use.
//
//	bench.go       Run: the measurements in their order, and their bounds
//	people.go      the runner, the sandbox and the resource server of a run
//	mint.go        ebb's own DPoP-bound tokens, each recorded before the response
//	introspect.go  token introspection (RFC 7662) of random tokens
//	offline.go     web/verify, and for comparison only the signature checks in it
//	complete.go    completing tasks with 10 to 100,000 live tokens
//
// A window measures the server's work. DPoP proofs are single-use and valid for
// one minute, so the proofs of a window are signed on all cores shortly before
// it, with a nonce of the server that is fetched first. The tokens in the
// responses are parsed after the window. During a window the client only writes
// and reads each request; its processor time is in the report.
package bench
