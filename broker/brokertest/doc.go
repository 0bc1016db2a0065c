// Package brokertest builds a whole broker on embedded stores for tests: nothing
// in it is a fake, only the clock can be turned.
//
//	env.go      New: stores, keys, attestors, providers, principals
//	sandbox.go  a sandbox with a key of its own, and what it sends
package brokertest
