// Package client calls ebb's API: as a principal (Operator) or as a sandbox
// (Sandbox). Both authenticate with a private key; neither sends a shared
// secret.
//
//	config.go      Config: how to reach ebb
//	peer.go        one call: proof, nonce, timeout, size limit, redirects refused
//	outgoing.go    the only file that reveals secrets, to send them
//	form.go        encoding of the form types of web/wire
//	problem.go     Problem: every error response, of /v1 and of /oauth2
//	assertion.go   private_key_jwt (RFC 7523)
//	operator.go    Operator: its token for /v1, fetched, cached, renewed
//	tasks.go       tasks and tickets; boxes.go  egress endpoints of sandboxes
//	requests.go    approval requests, and decisions
//	breakglass.go  break-glass periods
//	leases.go      credentials; usage.go  their use; transcripts.go  recorded requests
//	secrets.go     secrets of the operator, by name; ssh.go  keys of an SSH host
//	audit.go       audit entries, exports, checkpoints
//	attestors.go   the attestors, and how one evaluates evidence
//	policy.go      policy queries, the revocation feed
//	sandbox.go     Sandbox: enrolment and revocation
//	token.go       requests for a credential, and the wait for an approval
//	hold.go        a control connection, and challenges
//	signin.go      sign-in links to the console
//	own.go         the sandbox's own credentials
//	delegate.go    delegation of a part of the task to another sandbox
//	transport.go   Transport: use of a credential at a resource server
//	key.go         LoadKey, SaveKey, NewKey
//
// Every method is safe for concurrent use. Errors are *Problem when ebb
// responded, and other types when the call failed.
package client
