// Package crashtest kills a broker with SIGKILL before and after every step of a mint
// and of an end, starts it again, and looks at what is left: nothing alive at the
// third party, nothing owed on the record, every chain whole.
//
//	run.go      Run: the matrix; Late: a mint that outlives its broker
//	rig.go      one cell: children one after the other, and what must hold in the end
//	child.go    Child: the broker that is killed, in a process of its own
//	counter.go  the steps: calls at the contracts of stores and drivers, counted
//	stores.go   stores that count
//	driver.go   a driver that counts
//
// The broker is the one of the product, without a hook: it is told apart from it by
// nothing but what is put around its Ledger, Journal and Driver. The third party
// lives in the parent, or is a real one, and so survives. Time is not waited for: a
// broker that is started again has a clock some minutes ahead.
package crashtest
