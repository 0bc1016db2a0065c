// Package sqlstoretest makes stores for tests of other packages: SQLite and PostgreSQL databases that
// have the schema, copied from one that was migrated once, and a PostgreSQL server of the test's own,
// to be killed or frozen. Exec runs a statement without the store's knowledge.
//
// Tests of the schema itself, or of an empty database, use package storetest.
package sqlstoretest
