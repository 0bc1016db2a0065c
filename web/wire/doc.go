// Package wire holds the JSON and form types of ebb's API as plain structs. The server (web/api) encodes them, the Go
// client (web/client) decodes them, and the OpenAPI document (web/api/openapi.yaml) describes the same members.
//
// The package imports the standard library only and has no behaviour: no methods, no validation, no defaults. The core
// of ebb has types of its own, and web/api/convert*.go translates between the two. A change of a core type therefore
// does not change the API, and a change of the API is a change of this package.
//
// Conventions of every type:
//
//   - A time is RFC 3339 in UTC. A zero time.Time stands for "absent" where the tag says omitzero.
//   - A duration is a whole number of seconds; the member's name or comment says so.
//   - A scope is a text of scopes that are separated by one space (RFC 6749 section 3.3); each is
//     provider:resource:action. "" is no scope at all.
//   - An enumeration is a string type with constants. A client must expect values that it does not know.
//   - Members are only ever added. The server refuses unknown members of a request; a client ignores unknown members of
//     an answer.
//
// Files, by noun:
//
//	list.go        List: one page of a listing; Feed, Event: the revocation feed
//	problem.go     Problem (RFC 9457), OAuthError (RFC 6749 section 5.2), Kind, Advice, Reached
//	token.go       Token, Introspection, Detail, Binding, Backchannel
//	form.go        the forms of /oauth2
//	metadata.go    ServerMetadata (RFC 8414), ResourceMetadata (RFC 9728), JWKS (RFC 7517)
//	task.go        Task, TaskSpec, Sandbox, Delegation, Completion, Ticket
//	sandbox.go     Enrolled, Challenge, Delegated, OwnCredential, HoldLine: what a sandbox sends and receives
//	lease.go       Lease, Upstream
//	receipt.go     Receipt
//	request.go     Request, Vote, ApprovalBody, DenialBody
//	facts.go       Facts: what an approver decides on
//	breakglass.go  BreakGlass
//	provider.go    Provider, SelfTest
//	attestor.go    Attestor, EvidenceQuery, EvidenceExplanation
//	egress.go      EgressEndpoint, EgressEndpointSpec, Transcript
//	audit.go       AuditEntry, Checkpoint
//	usage.go       Usage
//	policy.go      Policy, PolicyQuery, Decision, Explanation
//	console.go     SignInLink, StoredSecret, Ready: what the console, the secret store and the probes answer
package wire
