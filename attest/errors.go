package attest

import (
	"errors"

	"ebb/attest/jose"
)

// ErrRejected is matched by every error that is the caller's fault.
var ErrRejected = errors.New("attest: evidence rejected")

// Reason says why evidence was rejected; a fixed set, fit for a metrics label.
type Reason string

// The reasons.
const (
	ReasonUnknownAttestor Reason = "unknown_attestor"
	ReasonMalformed       Reason = "malformed"
	ReasonOversized       Reason = "oversized"
	ReasonType            Reason = "type"
	ReasonAlgorithm       Reason = "algorithm"
	ReasonKeyUnknown      Reason = "key_unknown"
	ReasonSignature       Reason = "signature"
	ReasonIssuer          Reason = "issuer"
	ReasonAudience        Reason = "audience"
	ReasonExpired         Reason = "expired"
	ReasonNotYetValid     Reason = "not_yet_valid"
	ReasonLifetime        Reason = "lifetime"
	ReasonClaims          Reason = "claims"
	ReasonKeyBinding      Reason = "key_binding"
	ReasonNonce           Reason = "nonce"
	ReasonMeasurement     Reason = "measurement"
	ReasonDead            Reason = "dead"
	ReasonUsed            Reason = "used"
	ReasonSelectors       Reason = "selectors"
)

// Rejection is the caller's fault. Public is one sentence fit for an RFC 6749
// error_description that repeats nothing from the evidence.
type Rejection struct {
	Reason Reason
	Public string
	cause  error
}

// Reject makes a Rejection; cause, for logs, may be nil.
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

// FromToken turns a refusal of package jose into a Rejection with the same public
// sentence. Every other error passes unchanged: it means "could not judge".
func FromToken(err error) error {
	e, refused := errors.AsType[*jose.Error](err)
	if !refused {
		return err
	}
	r := Reason(e.Reason) // the sets overlap, see the test
	switch e.Reason {
	case jose.ReasonHeader:
		r = ReasonMalformed
	case jose.ReasonKey:
		r = ReasonKeyUnknown
	}
	return Reject(r, e.Public, err)
}
