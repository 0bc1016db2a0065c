// Package memstore implements the LiveStore in this
// process: the embedded default. Its data is lost with the process, and the broker
// refills it from the database at the start.
//
// One mutex protects everything. A call does only a few map operations under it, so the
// mutex is held briefly, however much is stored. The exception is a lease of an owner at
// its limit: its leases are counted again, which reads the owner's open tasks once.
//
//   - store.go   Store, its clock, Guard, and the sweep that every call pays a
//     bounded part of: there are no timers
//   - expiry.go  the queue of expiring entries
//   - tasks.go   TaskTable; closing a task drops its leases in one step
//   - due.go     Due and its index
//   - leases.go  LeaseTable: a lease is live only while its task holds it
//   - owners.go  how many leases the tasks of one owner hold
//   - feed.go    the revocation feed and its waiters
//   - gate.go    Admit: claims and rates
//   - values.go  one-time values and polling paces
//
// Times are compared with the times passed in, or with Config.Now in calls without one. A
// clock that jumps ahead and comes back causes no claim to be forgotten. A clock that is
// set back makes no forgotten claim valid again: see Store.forgotten.
package memstore
