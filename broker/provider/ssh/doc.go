// Package ssh mints SSH user certificates (OpenSSH PROTOCOL.certkeys), signed by a CA of ebb's
// own, over a public key of the caller.
//
//	driver.go   Config, New; Check, Mint, Revoke, Traits, Describe
//	options.go  the provider's part of the configuration; problems.go  all at once
//	plan.go     scopes -> principals, extensions and critical options
//	hosts.go    addresses and host keys of the hosts
//	pubkey.go   the authorized_keys line that is certified
//	cert.go     the certificate: serial, key id, dates
//	ca.go       Signer; the CA in a directory of keys, or in a file
//	revoked.go  the revoked certificates in the database, and their KRL
//	push.go     the KRL as a file: under a lock, temporary file, then rename
//	probe.go    whether the KRL that hosts fetch has held the certificate long enough
//	kill.go     the command that ends open sessions
//	run.go      Run: maintains the file and the CA's keys
//	setup.go    CheckSetup, and a key for the provider self-test
//
// Package krl is the format of key revocation lists.
//
// # No stored state
//
// Serial and key id follow from the lease id, so that a certificate needs no handle. A certificate
// that was signed just before a power failure can be revoked like any other. The KRL follows from
// the leases in the database: after a restart, and on every replica, it has the same bytes.
//
// # Revocation
//
// Revoke returns when the published KRL holds the certificate. A host refuses the certificate at
// the next connection after it has fetched that list. The class is eventual; the bound is the
// configured refresh interval of the hosts (krl.refresh) and the age of the list. Open sessions
// continue, also past the expiry of the certificate, unless the kill command ends them.
package ssh
