// Package issuance opens tasks, issues credentials and decides on their use.
//
// A token request passes these steps:
//
//  1. identity authenticates the caller; admission reads the task.
//  2. The scopes and the resource select one provider.
//  3. The policy denies, asks or allows.
//  4. frame computes the latest expiry and the widest scope that may be issued (I4, I5). It is one function.
//  5. For one of ebb's own tokens, the lease is made durable, then the response is sent (I1). For a third
//     party, the intent is durable before the provider is called, and the outcome before the response (I3).
//
// A mint at a third party has these steps. The documentation of package broker says what a
// crash leaves behind at each:
//
//	a  enter    waits for a slot at the provider: rate limit, number of credentials, fair share
//	b  intend   writes the intent and this process's claim on it to the store
//	c  enliven  adds the lease to the live store, if caps allow it and the task is open and not paused
//	d  call     the driver mints; drivers with a handle save it durably on the way
//	e  outcome  seals the handle and records the lease as live
//	f           checks the live store once more, then sends the response
package issuance
