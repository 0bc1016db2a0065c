// Package load is a closed-loop HTTP load generator: every client has one
// connection, sends a request that was built beforehand, waits for the answer
// and sends the next. `ebb bench` and .ci/peers drive every server with it, so
// that the client costs all of them the same.
//
//	target.go   Target: where to, and one connection to it
//	request.go  Build: a request as the bytes of HTTP/1.1
//	run.go      Run: clients, warm-up, window, answers, Result
//	answer.go   reading an answer strictly and cheaply
//	head.go     its status line and header fields
//	quiet.go    Quiet: no garbage collection while a clock runs; processor time
//	stats.go    rate and percentiles
//
// Nothing is signed, parsed as JSON or looked up while the clock runs: on one
// machine the generator takes its processor time from the server, so the rest of
// its work belongs before or after the window.
//
// A run ends after its window or when its requests are used up, whichever is
// first: single-use proofs make every request good for one time only.
package load
