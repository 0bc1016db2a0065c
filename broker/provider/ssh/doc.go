// Package ssh mints SSH user certificates (OpenSSH PROTOCOL.certkeys) signed by
// a CA of ebb's own, over a key that the caller made and ebb never sees.
//
//	driver.go   Config, New; Check, Mint, Revoke, Traits
//	effect.go   Describe: what a scope lets its holder do
//	options.go  the provider's part of the configuration; problems.go  all at once
//	plan.go     scopes -> principals, extensions and critical options
//	hosts.go    where hosts are, and the keys that they have
//	pubkey.go   the one line of authorized_keys that is certified
//	cert.go     the certificate: serial, key id, dates
//	ca.go       Signer; the CA in a directory of keys, or in a file
//	revoked.go  what is revoked, as the record knows it, and the KRL of it
//	push.go     the KRL as a file: under a lock, temporary file, then rename
//	probe.go    is it in the KRL that hosts fetch, and long enough
//	kill.go     the command that ends open sessions
//	run.go      Run: looks after the file and the CA's keys
//	setup.go    CheckSetup, and a key to try the provider out with
//
// krl is the format of revocation lists.
//
// # Nothing to remember
//
// Serial and key id follow from the lease id alone, so a certificate needs no
// handle: one that was signed while the power went is revoked like any other,
// and the KRL follows from the leases on the record. A restart, and every
// replica, publishes the same bytes.
//
// # What revocation means
//
// Revoke returns when the certificate is in the KRL that is published. A host
// refuses it at the next connection after it has fetched that list: the class is
// eventual, its bound what the operator says of the hosts (krl.refresh) and the
// age of the list. Sessions that are open go on, past the certificate's own expiry
// too, unless the kill command ends them.
package ssh
