// Package durability refills the LiveStore from the database and detects a database that lost
// entries.
//
// At start and after a loss, the LiveStore is filled from the database before any token is
// issued. To detect a database that lost entries, ebb keeps high-water marks of the audit log
// outside of it, and signs checkpoints.
package durability
