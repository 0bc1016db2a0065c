// Package pace limits calls to providers: the wait after a failure, a circuit breaker for a
// provider that keeps failing, and fair limits on concurrent calls. The package is pure: the
// caller passes the clock, and there is no I/O.
//
//	breaker.go  Backoff, the wait before the next attempt; Left, the rest of a wait; a circuit breaker that lets one call at a time test a failing provider
//	gate.go     a bound on concurrent calls, with a fair share for each caller
package pace
