// Package sqlstore implements broker.Store and broker.ApprovalStore in PostgreSQL or SQLite, with one SQL text for both. Apart from
// migrations, no other package imports database/sql.
//
//	config.go     Config, Open, Close
//	migrate.go    Migrate and MigrationStatus
//	engine.go     an open database: handles to write and to read; its clock
//	postgres.go   how PostgreSQL is opened and what its errors mean
//	sqlite.go     the same for SQLite
//	errors.go     which errors are refusals, and which mean an unknown outcome
//	session.go    one connection with its prepared statements
//	sqltext.go    placeholders, conditions and pages
//	rows.go       reading the rows of a query; hot.go  prepared statements for frequent reads
//	metrics.go
//	sealing.go    the wrapped data keys of package seal
//	secretstore.go  the sealed secrets of package secretstore
//	sessions.go   the sessions of package people; passkeys.go  its passkeys
//	breakglass.go break-glass periods, in which one person approves alone
//	policies.go   drafts of policies; releases.go  published policies
//	reach.go      addresses and notification wishes of people; notifysources.go  the unread
//	              audit entries of package notify, and its plans; outbox.go  its messages
//
// The files of a write:
//
//	store.go      Append checks a Record and makes it a unit
//	committer.go  the queue: one goroutine takes the waiting units and commits them
//	gather.go     which units share a commit
//	batch.go      one batch: one transaction, or each unit by itself
//	parts.go      the compare-and-swaps and inserts of a unit
//	delegation.go counting the uses of a task
//	upstream.go   the row beside a lease at a third party
//	settlelease.go the outcome of a step at a provider
//	revocation_queue.go  the revocation queue: claims, and counts of pending revocations
//	approval_store.go  Create as a unit; vote.go, settle.go  Vote and Settle
//	verdict.go    the decision that the votes make
//	writable.go   whether writes succeed: by the latest write, or by a probe
//
// The files of a read: tasks.go, leases.go, requests.go, queue.go and entries.go. Paged
// lists: leaselist.go, leasetally.go and entrylist.go. Sums over a window: figures.go,
// figuredays.go, answers.go and usage.go.
//
// # Group commit
//
// A flush to disk costs more than all other steps of a mint, so concurrent units share
// one. A batch holds the units that arrived during the commit of the previous batch. If
// several units shared the previous batch, mints also wait for as many further units: at
// most half as long as the previous batch took, longer with SQLite when many units shared
// it. The reason is that clients whose requests were answered together send their next
// requests together. One goroutine writes, because a chain has one end.
//
// The compare-and-swaps of a batch run one by one. A unit that loses is left out before
// it has written anything. Leases and entries are inserted with several rows per
// statement. The insert of a lease looks its task up and fails if the task is closed;
// sift then settles the batch without the leases of closed tasks. On any other failure
// the transaction is rolled back and each unit runs by itself, so that a unit never fails
// because of another unit. Only a commit with an unknown outcome fails a whole batch; the
// end of the chain is then read back before the next batch.
package sqlstore
