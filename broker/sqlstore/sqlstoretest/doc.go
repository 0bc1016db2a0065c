// Package sqlstoretest makes stores for tests of other packages.
//
//	sqlite.go    SQLite: databases that have the schema, copied from one that was migrated
//	postgres.go  Postgres: the same on a real server
//	server.go    Server: a PostgreSQL of the test's own, to be killed or frozen
//	exec.go      a statement behind the back of a store
//
// Tests of the schema itself, or of an empty database, use package storetest.
package sqlstoretest
