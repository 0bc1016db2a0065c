// Package load is a closed-loop HTTP load generator: every client has one
// connection, sends a prepared request, waits for the response and sends the
// next. ebb-bench uses it for every server, so that the cost of the client is the
// same for all.
//
//	target.go   Target: a server, and one connection to it
//	request.go  Build: a request as HTTP/1.1 bytes
//	run.go      Run: clients, warm-up, window, responses, Result
//	answer.go   strict and cheap parsing of a response
//	head.go     its status line and header fields
//	quiet.go    Quiet: no garbage collection during a measurement; processor time
//	stats.go    rate and percentiles
//
// Nothing is signed, parsed as JSON or looked up during the measurement. On one
// machine the generator takes its processor time from the server, so all other
// work is done before or after the window.
//
// A run ends after its window or when its requests are used up, whichever is
// first: a single-use proof makes a request valid once only.
package load
