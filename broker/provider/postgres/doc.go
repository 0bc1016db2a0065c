// Package postgres mints database roles: one LOGIN role per lease, a member of the
// NOLOGIN group roles that the scopes name, and of nothing else.
//
//	config.go  Config: databases, and which group role an action stands for
//	driver.go  Driver: Check, Mint, Traits
//	effect.go  Describe: what a scope lets its holder do
//	connect.go Connector: sessions that egress opens
//	revoke.go  the end of a role: no login, no session, no object, no role
//	disown.go  what a role leaves behind: tables for the owner, nothing that acts
//	callers.go what of those tables calls others with their owner's rights
//	setup.go   CheckSetup: what is wrong with the set-up on the server
//	scram.go   the SCRAM-SHA-256 verifier, so that no password reaches the server's log
//	errors.go  what an error of the server means
//
// A scope is name:database:action. The role's name is provider.Name of its lease,
// so that it is found again without a handle.
//
// What PostgreSQL does not do by itself, and this package therefore does: an
// expired, locked or dropped role keeps its open sessions (VALID UNTIL is looked
// at when a password is, and never again), and DROP ROLE fails as long as the role
// owns or was granted anything in any database of the cluster.
package postgres
