// Package revocation ends tasks and credentials.
//
// One function ends a task, for every caller. It refuses the task in this process, then in the
// LiveStore, then makes the end durable with its audit entry, and withdraws open requests. A
// step that fails is a pending end: it is tried until it succeeds, also after a crash.
//
// Credentials at third parties go through the revocation queue. Each provider has one worker,
// which claims due leases, attempts the revocation, probes whether the credential is refused,
// and settles the lease. A late credential, which appears after its lease was settled, is
// revoked as well. A sweep compares the provider's list with the recorded leases.
package revocation
