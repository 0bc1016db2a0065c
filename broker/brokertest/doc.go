// Package brokertest builds a complete broker on embedded stores for tests. Only the
// clock is replaced: tests can set it.
//
//	env.go      New: stores, keys, attestors, providers, principals
//	clock.go    Clock: set by tests, or the real one
//	sandbox.go  a sandbox with its own key, and its requests
//	upstream.go a third party over HTTP with its own state and settable faults;
//	            upstream_serve.go its answers
//	driver.go   Party: a driver for it
//	roles.go    RoleTable: the roles that may call each route, from the documentation
//	sealing.go  sealing keys for handles
//	canary.go   Hides: finds a secret in the forms in which secrets leak
package brokertest
