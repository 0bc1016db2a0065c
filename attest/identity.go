package attest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/attest/options"
)

// Class is the kind of proof behind an identity. Policies can refer to it.
type Class string

// The classes, from hardest to easiest to forge.
const (
	ClassHardware Class = "hardware" // signed by hardware: TPM, Nitro, SEV-SNP
	ClassKernel   Class = "kernel"   // reported by the kernel: peer credentials
	ClassSigned   Class = "signed"   // signed by an issuer: OIDC, SPIFFE
	ClassTicket   Class = "ticket"   // a single-use secret, or a task token issued for it
	ClassBearer   Class = "bearer"   // a reusable token without a key
)

// Proves returns a phrase for people that says what an identity of class c proves.
func (c Class) Proves() string {
	switch c {
	case ClassHardware:
		return "a hardware device signed a statement about the software it runs, with a key that does not leave the device"
	case ClassKernel:
		return "the kernel of ebb's own machine identified the process"
	case ClassSigned:
		return "an issuer that ebb trusts signed the identity; a thief of the document could have presented it first"
	case ClassTicket:
		return "the caller was the first to present a single-use ticket, or holds the key that redeemed it"
	case ClassBearer:
		return "the caller holds a document that others may hold too"
	}
	return "nothing: ebb does not know this class"
}

// Identity is the result of judging evidence.
type Identity struct {
	// Attestor is the name of the instance that judged.
	Attestor string
	// Subject is unique within the Attestor: a sub, a SPIFFE ID, a uid.
	Subject string
	Class   Class
	// Selectors are facts for SelectorMatch, by the names that the kind documents.
	Selectors map[string]string
	// NotAfter is the expiry of the evidence; zero when the evidence has none.
	// Credentials issued for this identity expire no later (invariant I4).
	NotAfter time.Time
	// MadeAt is when the evidence was made. Reusable evidence sets it, because the
	// re-attestation deadline of a sandbox counts from it. Zero when the evidence or
	// the facts in it are current: just made, just looked up, or the answer to a
	// challenge, which is at most a minute old.
	MadeAt time.Time
	// TaskID is set only when the evidence itself names the task.
	TaskID string
	// ReplayID identifies this piece of evidence. It is the same for every encoding
	// of the evidence and for every attestor, because two attestors may trust one
	// issuer. The pipeline claims it until ReplayUntil for the first key that uses it.
	// "" when the kind has consumed the evidence itself.
	ReplayID    string
	ReplayUntil time.Time
	// Key is the JKT that the evidence is bound to; "" when it is not.
	Key string
	// AuthAt is when the person signed in at the issuer (auth_time). ACR is the
	// authentication context class (acr). Both are of people only, and zero when the
	// ID token has no such claim (OpenID Connect Core section 2).
	AuthAt time.Time
	ACR    string
}

// Attestor judges evidence of one kind.
//
// Attest is safe for concurrent use and honours ctx. It never opens a connection to an
// address in the evidence: a URL in a claim or a header is only data. It refuses
// documents larger than MaxDocument. An error that matches ErrRejected means that the
// evidence is invalid. Any other error means that the evidence could not be judged; the
// HTTP API answers 503, and neither refuses nor accepts the evidence. Unless the kind
// documents that it consumes evidence, the same evidence gives the same Identity until
// it expires.
type Attestor interface {
	Attest(ctx context.Context, e Evidence) (Identity, error)
}

// Decode decodes the configuration of one instance of a kind into a C, strictly, as
// package options describes. On an error it returns the zero C.
func Decode[C any](kind string, config json.RawMessage) (C, error) {
	var c C
	if err := options.Decode(config, &c); err != nil {
		var none C
		return none, fmt.Errorf("attest/%s: configuration: %w", kind, err)
	}
	return c, nil
}
