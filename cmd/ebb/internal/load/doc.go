// Package load is a closed-loop HTTP load generator: every client has one
// connection, sends a request that was built beforehand, waits for the answer
// and sends the next. Nothing is signed and no map is touched while the clock
// runs, so that on a small machine the generator takes little from the server.
//
//	target.go   Target: where to, and one connection to it
//	request.go  Build: a request as the bytes of HTTP/1.1
//	run.go      Run: clients, window, answers, Result
//	stats.go    rate and percentiles
//
// A run ends after its window or when its requests are used up, whichever is
// first: single-use proofs make every request good for one time only.
package load
