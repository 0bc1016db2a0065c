// Package client speaks to ebb's API: as a principal (Operator) or as a sandbox
// (Sandbox). Both prove a private key; neither ever sends a shared secret.
//
//	config.go      Config: where ebb is, and what is refused about that
//	peer.go        one call: proof, nonce, timeout, size limit, redirects refused
//	outgoing.go    the one file that takes secrets out of custody, onto the wire
//	problem.go     Problem: every error answer, of /v1 and of /oauth2
//	assertion.go   private_key_jwt (RFC 7523)
//	operator.go    Operator: its token for /v1, fetched, kept, renewed
//	tasks.go       tasks and tickets; boxes.go  ways out of their sandboxes
//	requests.go    requests that wait for a person, and verdicts
//	breakglass.go  when somebody approved alone
//	leases.go      credentials on the record; usage.go  what was used of them; transcripts.go  what was said
//	secrets.go     secrets of the operator, by name; ssh.go  keys of an SSH host
//	audit.go       audit entries, exports, checkpoints
//	attestors.go   the attestors, and how one judges evidence
//	policy.go      policy questions, the revocation feed
//	sandbox.go     Sandbox: enrolment and revocation
//	token.go       asking for a credential, and waiting for a person
//	hold.go        a control connection, and challenges
//	signin.go      a link into the console
//	own.go         what the sandbox was given
//	delegate.go    handing a part of the task to another sandbox
//	transport.go   Transport: use a credential at a resource server
//	key.go         LoadKey, SaveKey, NewKey
//
// Every method is safe for concurrent use. Errors are *Problem when ebb
// answered, and anything else when it could not be asked.
package client
