// Package client calls ebb's API: as a principal (Operator) or as a sandbox
// (Sandbox). Both authenticate with a private key; neither sends a shared
// secret.
//
//	config.go      Config: how to reach ebb
//	peer.go        one call: proof, nonce, timeout, size limit, redirects refused
//	outgoing.go    the only file that reveals secrets, to send them
//	form.go        encoding of the form types of web/wire
//	page.go        Page: the page of a listing
//	problem.go     Problem: every error response, of /v1 and of /oauth2
//	assertion.go   private_key_jwt (RFC 7523)
//	operator.go    Operator: one field for each area of the API
//	session.go     the token for /v1 of an Operator: fetched, cached, renewed
//	tasks.go       Operator.Tasks: tasks and enrolment tickets
//	endpoints.go   Operator.Endpoints: egress endpoints of sandboxes
//	requests.go    Operator.Requests: approval requests and decisions
//	breakglass.go  Operator.BreakGlass: break-glass periods
//	credentials.go Operator.Credentials: issued credentials, their use, the revocation feed
//	transcripts.go Operator.Transcripts: recorded requests
//	audit.go       Operator.Audit: audit entries, exports, checkpoints
//	policy.go      Operator.Policy: the policy set, policy queries
//	providers.go   Operator.Providers: providers, self-tests, keys of SSH hosts
//	attestors.go   Operator.Attestors: attestors and how they evaluate evidence
//	secrets.go     Operator.Secrets: stored secrets of the operator
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
