// Package pace decides when a provider may be called: how long to wait after a
// failure, whether a provider that keeps failing is asked at all, and who goes
// first when many want to. It is pure: no clock but the one it is handed, no I/O.
//
//	backoff.go  how long to wait before the next attempt
//	breaker.go  a provider that fails again and again is asked by one call at a time
//	gate.go     a bound on calls at one time, and a fair share of it
package pace
