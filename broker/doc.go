// Package broker declares the types of the core (Task, Request, Lease, Principal and their
// parts), the kinds of errors, and the interfaces of the stores. It knows no SQL, no Redis, no
// HTTP and no SDK.
//
//	LiveStore         current state: Redis, or memory. It may be lost, and is refilled
//	Store             durable state: PostgreSQL or SQLite
//	revocation queue  pending revocations, in the Store's database
//	approval store    requests that wait for people, in the Store's database
//	Sealer            encrypts revocation handles at rest
//
// The areas of the core are sub-packages, and package core connects them.
//
// # The flow of one token request
//
//	1  identity    authenticates the caller by evidence, client assertion or its own token; the
//	               result is one task, its one sandbox and one proved key
//	2  kernel      admits the request: one round trip to the LiveStore claims the proof, ties the
//	               evidence to its key, counts the rate and reads the task
//	3  issuance    scopes and resource select one provider; ceiling and parent limit them
//	4  issuance    evaluates the policy: deny, ask or allow
//	5  approval    on ask: an earlier grant, a cool-down, or a new request; people decide and the
//	               caller polls
//	6  issuance    computes the limits of the credential: one function for I4 and I5
//	7  issuance    writes the lease to the Store, while it signs the token and writes the lease to
//	               the LiveStore; then it answers (I1)
//
// # The end of a task
//
//	1  revocation  refuses the task in this process, then in the LiveStore, then in the Store
//	2  revocation  queues the credentials at third parties, revokes and probes them
//	3  revocation  answers with the outcome of each credential, and signs a receipt
//
// # What a crash can leave behind
//
// A token is valid only while the LiveStore knows its lease and its task is open
// there. After a power failure at any step one of these cases holds:
//
//	in LiveStore, not in     the token was never returned; the LiveStore forgets the
//	Store                    lease when it expires or its task ends
//	in Store, not in         the response was never sent; a refill makes the lease
//	LiveStore                live until it expires, and no client has its token
//	in both, no response     the same
//	task closed in           refused everywhere; the next start finds the task
//	LiveStore, not in Store  closed in the LiveStore and writes it to the Store
//	task closed in Store,    the caller got no response; the next start closes the
//	not in LiveStore         task in the LiveStore before the listener opens
//
// With a third party, where credentials outlive this process (the letters are the
// steps of a mint):
//
//	a                        nothing
//	b, c: intent, provider   the claim expires; the revocation queue revokes by the
//	not asked                lease's id, which is no error for a credential that was
//	                         never minted
//	d: asked, no outcome     the same, with the handle if one was saved: a credential
//	                         that the provider did mint is revoked
//	e: live, no response     no client has the token; the lease ends with its task or
//	                         at its expiry, and its revocation is pending then
//	task closed, provider    the close moves the leases to revoking in the same unit:
//	not asked                refused here, pending there; the queue takes them
//	claimed, not asked;      the claim expires and the queue asks again: to revoke a
//	asked, not settled       revoked credential is no error
//	accepted, not probed     the queue goes on from there
//	settled                  no revocation is pending
package broker
