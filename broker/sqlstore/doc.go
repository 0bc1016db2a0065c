// Package sqlstore implements broker.Store and broker.ApprovalStore in PostgreSQL or SQLite, with one SQL text for both. Apart from
// migrations, no other package imports database/sql.
//
// Open connects, applies pending migrations and starts the chain of this process run. A Store embeds one store for each kind of
// data: tasks, leases, requests, the audit log, the revocation queue, figures, notifications, policies, people and secrets.
//
// A write is a unit of work. Append checks a record and makes it a unit: conditional updates of rows, then inserts of rows, then
// audit entries. The unit waits in a queue for the committer, the one goroutine that writes. The approval store and the revocation
// queue put their units into the same queue. A read uses a pool of connections, sees only committed rows, and never waits for the
// committer.
//
// The engine holds every difference between the two databases: how they are opened, how rows are locked, and what the errors of
// their drivers mean. An error is a refusal (the content of the database decides), a failure, or a commit with an unknown outcome.
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
//
// # Log of egress entries
//
// A SQLite database that one process owns has a log in front of it. A batch that contains only
// entries about requests through egress is written to the log, and then acknowledged. Its rows
// are inserted with a later batch or on their own, always before later entries of the chain.
// Reads that can return such entries insert these rows first.
package sqlstore
