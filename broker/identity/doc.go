// Package identity authenticates callers.
//
// A caller is a sandbox or a principal. A sandbox authenticates by evidence, which its attestor
// checks, and must be the sandbox that the runner registered for the task; after enrolment with
// a ticket it holds a task token. A principal authenticates by a client assertion (RFC 7523) or
// by a token for the API. In each case the request also proves the key to which the credential
// is bound. Evidence checks are limited per caller and per attestor, so that one task cannot
// delay the others.
package identity
