package attest

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/options"
)

// MaxDocument is the maximum size of a document in bytes.
const MaxDocument = 64 << 10

// Evidence is the input of one attestation.
type Evidence struct {
	// Attestor is the configured name of the kind instance to ask.
	Attestor string
	// Document is the document as sent, unchecked and possibly hostile: a JWT, a
	// ticket, a signed document. Empty for kinds that judge only the channel.
	Document []byte
	// Method is the OAuth client authentication method that the caller used, "" for
	// none. The pipeline has checked that it is one of the instance's ClientMethods.
	Method string
	// ClientAssertion is true when the document was sent as client_assertion. Its aud
	// must then be ebb and nothing else, even when the configuration accepts other
	// audiences in other places (RFC 7523bis).
	ClientAssertion bool
	// Header is the name of the HTTP header that carried Document, "" for the body.
	// The pipeline has checked that it is the header that the instance configures.
	Header string
	// Channel is what the listener observed of the connection.
	Channel Channel
	// Key is the key whose possession the caller has proved.
	Key Key
}

// Channel is what the listener itself observed of the connection. It contains no
// header, because a client could forge one.
type Channel struct {
	// PeerCertificates is the TLS client chain in DER as the client sent it, leaf
	// first. The client has proved possession of the leaf's key, and Key.X5T is the
	// digest of that leaf. The chain, the names and the dates are unverified: a kind
	// that relies on them verifies them against its own authorities.
	PeerCertificates [][]byte
	// RemoteAddr is host:port of the peer, or the path of a unix socket.
	RemoteAddr string
	// TLS is true when the connection is encrypted.
	TLS bool
	// Peer is the process at the other end of a unix socket, nil elsewhere.
	Peer *Peer
}

// Peer is what the kernel reported about a process when it connected (unix(7),
// SO_PEERCRED and SO_PEERPIDFD). When the descriptor is passed to another process or
// inherited over a fork, Peer still describes the process that connected.
type Peer struct {
	PID      int
	UID, GID uint32
	// PIDFD identifies that process even after its PID has been reused. The listener
	// owns it and closes it after the connection; -1 on kernels without SO_PEERPIDFD
	// (before Linux 6.5).
	PIDFD int
}

// Key is a key whose possession the pipeline has verified. The zero Key means that
// the caller proved none.
type Key struct {
	// JKT is the RFC 7638 thumbprint from a DPoP proof (RFC 9449), "" without one.
	JKT string
	// X5T is the x5t#S256 of the client certificate (RFC 8705), "" without one.
	X5T string
	// Public is the key of JKT; nil without a proof.
	Public crypto.PublicKey
}

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

const (
	maxSelectors     = 64
	maxSelectorName  = 128
	maxSelectorValue = 2048
)

// CheckSelectors returns an error unless want has 1 to 64 selectors, each with a name
// of 1 to 128 bytes and a value of 1 to 2048 bytes. An empty registration is refused
// because it would match every sandbox.
func CheckSelectors(want map[string]string) error {
	if len(want) == 0 {
		return errors.New("attest: no selectors are registered; register at least one, such as sub")
	}
	if len(want) > maxSelectors {
		return fmt.Errorf("attest: %d selectors are registered; register at most %d", len(want), maxSelectors)
	}
	for name, value := range want {
		if name == "" || len(name) > maxSelectorName || value == "" || len(value) > maxSelectorValue {
			return fmt.Errorf("attest: a selector has an empty or too long name or value; the name needs 1 to %d bytes, the value 1 to %d", maxSelectorName, maxSelectorValue)
		}
	}
	return nil
}

// SelectorMatch returns nil when got has every registered selector with exactly the
// registered value, compared byte for byte. There are no prefixes, no globs and no
// letter-case folding: "team/a" does not match "team/ab", and a registered "*" matches
// only "*". Selectors of got that are not registered are ignored. A mismatch matches
// ErrRejected. A registration that CheckSelectors refuses does not match it, because
// the runner and not the caller made that mistake.
func SelectorMatch(want map[string]string, got Identity) error {
	if err := CheckSelectors(want); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, found := got.Selectors[name]; !found || value != want[name] {
			return Reject(ReasonSelectors, "the selectors of the sandbox differ from those registered for the task; compare them with ebb attest explain",
				fmt.Errorf("selector %q is absent or has another value", name))
		}
	}
	return nil
}

// CheckNames returns an error when a registration has a selector that the attestor
// never sets, because no sandbox could match it. Attestors that are not Selecting
// are not checked.
func CheckNames(a Attestor, selectors map[string]string) error {
	s, knows := a.(Selecting)
	if !knows {
		return nil
	}
	can := s.SelectorNames()
	for name := range selectors {
		if !slices.Contains(can, name) { // the error omits name: it could be a secret in the wrong field
			return fmt.Errorf("one of the selectors is unknown to this attestor; register one or more of %s", strings.Join(can, ", "))
		}
	}
	return nil
}

// ErrRejected is matched by every error which means that the evidence is invalid.
var ErrRejected = errors.New("attest: evidence rejected")

// Reason is why evidence was rejected: one of a fixed set, used as a metrics label.
type Reason string

// The reasons.
const (
	ReasonUnknownAttestor Reason = "unknown_attestor" // the request names an attestor that is not configured
	ReasonMalformed       Reason = "malformed"        // it cannot be parsed strictly
	ReasonOversized       Reason = "oversized"        // it is longer than the attestor accepts
	ReasonType            Reason = "type"             // it is a document or token of another type
	ReasonAlgorithm       Reason = "algorithm"        // its signature algorithm is not allowed
	ReasonKeyUnknown      Reason = "key_unknown"      // no trusted key has its key ID
	ReasonSignature       Reason = "signature"        // the signature is invalid
	ReasonIssuer          Reason = "issuer"           // it comes from another issuer or trust domain
	ReasonAudience        Reason = "audience"         // it names an audience other than this ebb
	ReasonExpired         Reason = "expired"          // its validity has ended
	ReasonNotYetValid     Reason = "not_yet_valid"    // its validity has not begun; compare the clocks
	ReasonLifetime        Reason = "lifetime"         // its validity is longer than the attestor accepts
	ReasonClaims          Reason = "claims"           // a claim or an attribute is missing or not as required
	ReasonKeyBinding      Reason = "key_binding"      // it is bound to a key other than that of the request
	ReasonNonce           Reason = "nonce"            // its challenge is not one that ebb issued for this key
	ReasonMeasurement     Reason = "measurement"      // the measured software is not that of the configuration
	ReasonExited          Reason = "exited"           // the sandbox has exited
	ReasonUsed            Reason = "used"             // it was used before
	ReasonSelectors       Reason = "selectors"        // the identity does not match the selectors that the runner registered
)

// Rejection is the error for invalid evidence. Public is one sentence that is sent as
// error_description (RFC 6749 section 5.2) and contains nothing from the evidence.
type Rejection struct {
	Reason Reason
	Public string
	cause  error
}

// Reject returns a *Rejection. cause is for logs and may be nil.
func Reject(r Reason, public string, cause error) error {
	return &Rejection{Reason: r, Public: public, cause: cause}
}

func (r *Rejection) Error() string {
	if r.cause == nil {
		return "evidence rejected: " + r.Public
	}
	return "evidence rejected: " + r.Public + ": " + r.cause.Error()
}

// Unwrap returns the cause.
func (r *Rejection) Unwrap() error { return r.cause }

// Is matches ErrRejected.
func (r *Rejection) Is(target error) bool { return target == ErrRejected }

// FromToken converts a *jose.Error into a *Rejection with the same public sentence.
// It returns every other error unchanged: the token could not be judged.
func FromToken(err error) error {
	e, refused := errors.AsType[*jose.Error](err)
	if !refused {
		return err
	}
	r := Reason(e.Reason) // most reasons have the same name in both sets; TestFromToken checks all
	switch e.Reason {
	case jose.ReasonHeader:
		r = ReasonMalformed
	case jose.ReasonKey:
		r = ReasonKeyUnknown
	}
	return Reject(r, e.Public, err)
}
