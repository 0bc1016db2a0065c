// Package sqlstoretest makes journals for tests whose subject is something else.
//
//	sqlite.go    SQLite: databases that have the schema, copied from one that was migrated
//	postgres.go  Postgres: the same on a real server
//	exec.go      a statement behind the back of a store
//
// What tests the schema itself, or a database that is empty, asks package storetest.
package sqlstoretest
