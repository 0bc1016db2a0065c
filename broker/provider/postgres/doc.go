// Package postgres mints database roles: one LOGIN role per lease. The role is a member of the
// NOLOGIN group roles that the scopes name, and of no other role.
//
//	config.go  Config: databases, and the group role of each action
//	driver.go  Driver: Check, Mint, Traits, Describe
//	connect.go Connector: sessions that egress opens
//	revoke.go  removal of a role: its login, sessions, objects, and the role itself
//	disown.go  objects that a role leaves: tables go to the owner, code is dropped
//	callers.go parts of those tables that call functions with the owner's rights
//	setup.go   CheckSetup: problems of the configuration on the server
//	scram.go   the SCRAM-SHA-256 verifier, so that no password reaches the server's log
//	errors.go  classifies errors of the server
//
// A scope is name:database:action. The role's name is provider.Name of its lease, so that it can
// be found without a handle.
//
// Two things have to be done here because PostgreSQL does not do them. An expired, locked or
// dropped role keeps its open sessions: VALID UNTIL is checked with a password only. And DROP ROLE
// fails while the role owns an object, or has a grant, in any database of the cluster.
package postgres
