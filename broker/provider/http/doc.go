// Package http lets requests out that need no credential: to registries of packages, to
// pages of documentation. Nothing is added to them but what an answer to one
// of them has made (seal.go). A lease of it is what lets a box's
// request through that holds no placeholder, when its scopes are for the request's host, method
// and path, which the egress proxy has checked to read in one way.
//
//	config.go  Config: what may be asked for at all
//	driver.go  Driver: Check, Mint, Revoke, Traits, Describe
//	inject.go  Injects, Inject: which requests a lease is for
//	seal.go    Seals: routes whose answers make credentials, which stay in ebb
//
// A scope is <provider>:<host>/<path>:<action>. The host is a name; the path
// is of scopes, with * for one segment and ** for all below. Actions are read (GET, HEAD),
// write (POST, PUT, PATCH) and delete (DELETE).
package http
