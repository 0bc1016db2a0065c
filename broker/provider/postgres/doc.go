// Package postgres mints database roles: one LOGIN role per lease. The role is a member of the
// NOLOGIN group roles that the scopes name, and of no other role.
//
// Revocation removes the login of the role, its sessions, its objects, and the role itself. Tables
// go to the owner; code, and parts of tables that call functions with the owner's rights, are
// dropped. A password is sent as a SCRAM-SHA-256 verifier, so that it does not reach the server's
// log. The Connector opens sessions for the egress proxy. CheckSetup finds problems of the
// configuration on the server.
//
// A scope is name:database:action. The role's name is provider.Name of its lease, so that it can
// be found without a handle.
//
// Two things have to be done here because PostgreSQL does not do them. An expired, locked or
// dropped role keeps its open sessions: VALID UNTIL is checked with a password only. And DROP ROLE
// fails while the role owns an object, or has a grant, in any database of the cluster.
package postgres
