// Package ssh mints SSH user certificates (OpenSSH PROTOCOL.certkeys), signed by a CA of ebb's
// own, over a public key of the caller.
//
// Mint turns the scopes into principals, extensions and critical options, and certifies the
// authorized_keys line of the caller. The CA is in a directory of keys, or in a file. Run
// maintains the keys and the file of the KRL, which is replaced under a lock. The probe reads the
// KRL that hosts fetch. An optional command ends open sessions.
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
