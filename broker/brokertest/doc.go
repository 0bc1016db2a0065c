// Package brokertest builds a whole broker on embedded stores for tests: nothing
// in it is a fake, only the clock can be turned.
//
//	env.go      New: stores, keys, attestors, providers, principals
//	clock.go    Clock: turned by hand, or the real one
//	sandbox.go  a sandbox with a key of its own, and what it sends
//	upstream.go a third party over HTTP with a state of its own, which fails as it is
//	            told; upstream_serve.go its answers
//	driver.go   Party: a driver for it
//	roles.go    RoleTable: who may call which route, as the documentation says
//	sealing.go  sealing keys for handles
//	canary.go   Hides: a secret in whatever form it leaks
package brokertest
