package dpop

import "errors"

// ErrProof is matched by every refusal of a proof: invalid_dpop_proof.
var ErrProof = errors.New("dpop: proof refused")

// ErrNonce is matched when the proof is good but for its nonce: use_dpop_nonce,
// answered with a fresh DPoP-Nonce (RFC 9449, sections 8 and 9). It does not
// match ErrProof.
var ErrNonce = errors.New("dpop: nonce required")

// Reason says why a proof was refused; a fixed set, fit for a metrics label.
type Reason string

// The reasons.
const (
	ReasonMissing   Reason = "missing"
	ReasonSeveral   Reason = "several"
	ReasonToken     Reason = "token"     // malformed, wrong typ, alg or header
	ReasonSignature Reason = "signature" // does not verify with the key it carries
	ReasonClaims    Reason = "claims"    // jti, htm, htu or iat absent or of the wrong kind
	ReasonMethod    Reason = "method"
	ReasonURL       Reason = "url"
	ReasonTime      Reason = "time"
	ReasonAth       Reason = "ath"
	ReasonNonce     Reason = "nonce"
)

// Error is a refusal. Public is one sentence fit for error_description.
type Error struct {
	Reason Reason
	Public string
	cause  error
}

func (e *Error) Error() string {
	if e.cause == nil {
		return "dpop: " + e.Public
	}
	return "dpop: " + e.Public + ": " + e.cause.Error()
}

// Unwrap returns the cause, for logs.
func (e *Error) Unwrap() error { return e.cause }

// Is matches ErrNonce for a nonce and ErrProof for everything else.
func (e *Error) Is(target error) bool {
	if e.Reason == ReasonNonce {
		return target == ErrNonce
	}
	return target == ErrProof
}

func refuse(r Reason, public string) error { return &Error{Reason: r, Public: public} }
