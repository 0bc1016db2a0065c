// Package migrations holds the database schema as numbered SQL files,
// NNNN_name.sql, and applies them. The files are embedded and append-only: a
// released file never changes (a test holds their hashes), a change of the
// schema is a new file, and the code of one release runs before and after it.
//
//	0001_journal.sql   tasks, leases, requests, votes, audit entries, checkpoints
//	0002_sealing.sql   data keys that seal handles
//	0003_lineage.sql   parents of credentials, who paused a task
//	0004_upstream.sql  pending revocations at providers
//	0005_secrets.sql   secrets of the operator
//	0006_delegation.sql  delegated tasks
//	0007_unjudged.sql    probes at providers without a result
//	0008_secret_version.sql  versions of secrets
//	files.go           the embedded files, in order, with their checksums
//	apply.go           Apply: one transaction per file, safe for replicas that
//	                   start together
//	status.go          Status, and the comparison with the files of this binary
//	dialect.go         statements that differ between PostgreSQL and SQLite
//
// One text serves both engines (PostgreSQL from 14, SQLite from 3.35): times
// are BIGINT milliseconds since 1970 UTC with 0 for "not", JSON is TEXT, flags
// are 0 and 1.
package migrations
