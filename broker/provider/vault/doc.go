// Package vault mints through the dynamic engines of Vault or OpenBao: database,
// aws, pki and whatever else answers with a lease.
//
//	config.go  Config: which path, with which policies, an action stands for
//	driver.go  Driver: Check, Mint, Traits
//	effect.go  Describe: what a scope lets its holder do
//	revoke.go  Revoke and Probe
//	setup.go   CheckSetup: what is wrong with the set-up on the server
//
// Each lease has a token of its own at the server, made before the engine is
// asked and saved before it is used. Whatever the engine then makes hangs on that
// token: an answer that is lost takes nothing with it that the accessor would not
// end, and the server itself ends it all when the token's time is over.
package vault
