// Package enroll attests by secrets that ebb itself issued, for sandboxes that have no
// evidence from another issuer.
//
// A runner opens a task and passes its enrolment ticket to the sandbox. The sandbox makes a
// key, sends the ticket once with a proof of that key, and receives a task token. From then
// on its evidence is the task token with proofs of the same key. An attacker who reads them
// later cannot use either: the ticket is spent, and the token needs the key.
//
// Attest consumes a ticket, so its Identity has no ReplayID. A task token is bound to its
// key by cnf.jkt and may be sent again until it expires.
package enroll
