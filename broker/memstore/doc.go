// Package memstore is the Ledger inside this process: the embedded default. It
// is lost with the process, and the Journal refills it at start.
//
// Everything is behind one mutex, and no call does more under it than a few
// map operations, so that holding it is short whatever the ledger holds. Whoever
// is at the cap of its owner is counted anew, which goes once through its open tasks.
//
//   - store.go   Store, its clock, Guard, and the sweep that every call pays a
//     bounded part of: there are no timers
//   - expiry.go  the queue of what is to be forgotten
//   - tasks.go   TaskTable; closing a task drops its leases in one step
//   - due.go     Due and its index
//   - leases.go  LeaseTable: a lease is live only while its task holds it
//   - owners.go  how many leases the tasks of one owner hold
//   - feed.go    the revocation feed and its waiters
//   - gate.go    Admit: claims and rates
//   - values.go  one-time values and polling paces
//
// Times are compared with the times passed in, or with Config.Now where a call
// has none. A clock that jumps ahead and comes back makes nothing forgotten. One that
// is set back makes nothing valid that was forgotten: see Store.forgotten.
package memstore
