// Package storetest holds the contracts of package broker's stores as test suites: RunStore, RunApprovalStore, RunRevocationQueue,
// RunPolicies, RunNotify and RunLiveStore. Every implementation runs the suites of its contract, also against real servers.
//
// Each test gets an empty database of its own, and opens it again as another process run when it needs a replica or a restart. The
// tests cover the effects of single calls, refused calls that must leave nothing behind, filters and pages, and races with exactly one
// winner. Sums are compared with counts of all data of a random history. The LiveStore is also compared with a model on random
// sequences of calls. BenchLiveStore measures it.
//
// Tests that need a real server find it with package counterpart.
package storetest
