// Package crashtest kills a broker with SIGKILL before and after every step of a mint and
// of a revocation, starts it again, and checks the result: no credential is alive at the
// third party, no revocation is pending, every chain verifies.
//
//	run.go      Run: the matrix; Late: a mint that outlives its broker
//	rig.go      one cell: successive children, and the checks at the end
//	child.go    Child: the broker that is killed, in a process of its own
//	counter.go  the steps: calls at the contracts of stores and drivers, counted
//	stores.go   stores that count
//	driver.go   a driver that counts
//
// The broker is that of the product, without a hook; only its LiveStore, Store and Driver
// are wrapped. The third party runs in the parent process, or is a real one, and so keeps
// running. Instead of waiting, a restarted broker has a clock that is some minutes ahead.
package crashtest
