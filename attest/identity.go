package attest

import (
	"context"
	"time"
)

// Class says what stands behind an identity, so that policy can tell them apart.
type Class string

// The classes, from the hardest to forge to the easiest.
const (
	ClassHardware Class = "hardware" // a device vouches: TPM, Nitro, SEV-SNP
	ClassKernel   Class = "kernel"   // the operating system vouches: peer credentials
	ClassSigned   Class = "signed"   // an issuer's signature vouches: OIDC, SPIFFE
	ClassTicket   Class = "ticket"   // a single-use secret or what was issued for it
	ClassBearer   Class = "bearer"   // whoever holds it: no key, reusable
)

// Proves is what a class stands for, one sentence for people.
func (c Class) Proves() string {
	switch c {
	case ClassHardware:
		return "a device vouches for what was started on it, by a key that does not leave it"
	case ClassKernel:
		return "the kernel of ebb's own machine says which process this is"
	case ClassSigned:
		return "an issuer that ebb trusts has signed what this is; whoever got hold of the document could show it first"
	case ClassTicket:
		return "this one had a single-use ticket first, or the key that redeemed it"
	case ClassBearer:
		return "this one holds a document that others may hold too"
	}
	return "nothing that ebb knows of"
}

// Identity is what an Attestor makes of evidence.
type Identity struct {
	// Attestor is the name of the instance that judged.
	Attestor string
	// Subject is unique within the Attestor: a sub, a SPIFFE ID, a uid.
	Subject string
	Class   Class
	// Selectors are facts for SelectorMatch, by the names the kind documents.
	Selectors map[string]string
	// NotAfter is when the evidence stops vouching; zero: it does not say.
	// Nothing issued on it may live longer (invariant I4).
	NotAfter time.Time
	// MadeAt is when the evidence was made, for evidence that can be shown again later:
	// where a sandbox has to attest again, it counts from then. Zero: it was made, or
	// what it says was looked up, just now, or it answers a challenge of a minute ago.
	MadeAt time.Time
	// TaskID is set only when the evidence itself names the task.
	TaskID string
	// ReplayID names this piece of evidence, whatever its encoding, and whichever
	// attestor judges it: two may trust one issuer. The pipeline claims it for the
	// first key that uses it, until ReplayUntil. "" when the kind has consumed the
	// evidence itself.
	ReplayID    string
	ReplayUntil time.Time
	// Key is the JKT that the evidence is bound to; "" when it is not.
	Key string
	// AuthAt is when the person signed in at the issuer (auth_time), ACR how strongly (acr;
	// OpenID Connect Core section 2). Of people alone; zero when the token does not say.
	AuthAt time.Time
	ACR    string
}

// Personal is an Attestor that also judges the ID tokens of people. Tokens of
// workloads, access tokens and tokens for another client are not ID tokens, though
// the same issuer signs them.
type Personal interface {
	Attestor
	// ForPeople returns an Attestor of the same issuer that accepts ID tokens only.
	ForPeople() Attestor
}

// Attestor judges evidence of one kind.
//
// Attest is safe for concurrent use, honours ctx, and never opens a connection
// that the evidence asks for (a URL in a claim or a header is data). It takes at
// most MaxDocument bytes and refuses more. An error that matches ErrRejected is
// the caller's fault; any other means "could not judge" and becomes 503, never a
// refusal and never an acceptance. Unless the kind says that it consumes its
// evidence, the same evidence gives the same Identity until it expires.
type Attestor interface {
	Attest(ctx context.Context, e Evidence) (Identity, error)
}
