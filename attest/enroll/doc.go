// Package enroll attests by what ebb itself gave out, for sandboxes that no
// issuer vouches for.
//
// A runner opens a task and hands its ticket to the sandbox. The sandbox makes a
// key, shows the ticket with a proof of that key, once, and gets a task token.
// From then on the task token and proofs of the same key are its evidence. Both
// are useless to anyone who reads them: the ticket is spent, the token needs the key.
//
// A ticket is consumed by Attest, so its Identity has no ReplayID. A task token
// is bound to its key by cnf.jkt and may be shown again until it expires.
package enroll
