// Package memstore implements the LiveStore in this
// process: the embedded default. Its data is lost with the process, and the broker
// refills it from the database at the start.
//
// One mutex protects everything. A call does only a few map operations under it, so the
// mutex is held briefly, however much is stored. The exception is a lease of an owner at
// its limit: its leases are counted again, which reads the owner's open tasks once.
//
// There are no timers: every call removes a bounded number of expired entries. A lease is
// live only while its task holds it, so that closing a task drops its leases in one step.
//
// Times are compared with the times passed in, or with Config.Now in calls without one. A
// clock that jumps ahead and comes back causes no claim to be forgotten. A clock that is
// set back makes no forgotten claim valid again: see Store.forgotten.
package memstore
