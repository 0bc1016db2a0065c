// Package sqlstore keeps the Journal and the Desk in PostgreSQL or SQLite, in
// one SQL text. It is the only place besides migrations that knows database/sql.
//
//	config.go     Config, Open, Close
//	migrate.go    Migrate and MigrationStatus
//	engine.go     an open database: handles to write and to read; its clock
//	postgres.go   how PostgreSQL is opened and what its errors mean
//	sqlite.go     the same for SQLite
//	errors.go     which errors are somebody's fault, and which mean "unknown"
//	session.go    one connection with its prepared statements
//	sqltext.go    placeholders, conditions and pages
//	rows.go       reading the rows of a query; hot.go  of those that are read for every request
//	metrics.go
//	sealing.go    the wrapped data keys of package seal
//	safe.go       the sealed secrets of package safe
//	sessions.go   the sessions of package people; passkeys.go  and its passkeys
//	breakglass.go periods in which somebody approves alone
//	policies.go   drafts of policies; releases.go  those that were published
//	reach.go      what people want to be told; notifysources.go  what package notify reads of
//	              the record, and plans; outbox.go  its messages
//
// The way of a write:
//
//	journal.go    Append checks a Record and makes it a unit
//	committer.go  the queue: one goroutine takes whatever waits and commits it
//	gather.go     which units share a commit
//	batch.go      one batch: one transaction, or each unit by itself
//	parts.go      the compare-and-swaps and inserts of a unit
//	delegation.go  what a unit counts: the uses of a task
//	upstream.go   what a unit writes beside a lease at a third party
//	settlelease.go  what came of a step at a provider
//	lane.go       claims of what is owed there, and its sum
//	desk.go       Create as a unit; vote.go, settle.go  Vote and Settle
//	verdict.go    what a vote decides
//	writable.go   whether writes succeed: the outcome of the latest, or a probe
//
// The way of a read: tasks.go, leases.go, requests.go, queue.go, entries.go; of what
// people page through: leaselist.go, leasetally.go, entrylist.go; figures.go, figuredays.go and
// answers.go sum up a window, usage.go what was used in one.
//
// # Group commit
//
// A flush to disk costs more than everything else about a mint, so concurrent
// units share one. A batch is what arrived while the batch before was being
// committed. Where that one was shared, mints also wait for as many others, for half as
// long as it took at most, with SQLite for longer where many shared it: clients that were
// answered together come back together. One
// goroutine writes, because a chain has one end.
//
// The compare-and-swaps of a batch run one by one; a unit that loses is left
// out before it has written anything. Leases and entries go in as many rows per
// statement. The insert of a lease looks its task up and fails when that is
// closed; the batch is then sifted and goes on without those that lost. If
// anything else fails, the transaction is rolled back and each unit runs by
// itself, so that nobody fails for another's fault. Only a commit whose outcome is
// unknown fails a whole batch; then the end of the chain is read back before the
// next one.
package sqlstore
