// Package kubernetes mints tokens of service accounts by TokenRequest, each bound
// to a Secret of its own: the end of the Secret is the end of the token.
//
//	config.go  Config: which service account an action stands for
//	api.go     the API server over plain HTTP: login, calls, what answers mean
//	driver.go  Driver: Check, Mint, Traits
//	effect.go  Describe: what a scope lets its holder do
//	claims.go  what the token says: it is handed out only if that is what was asked
//	revoke.go  Revoke, Probe and List
//	setup.go   CheckSetup: what is wrong with the broker's rights
//
// The Secret holds nothing. It carries the name that follows from the lease, so
// that ebb finds it without having seen an answer, and a token that is asked for
// after its Secret is gone is refused by the server.
package kubernetes
