package attest

import (
	"errors"

	"github.com/ebb-broker/ebb/attest/jose"
)

// ErrRejected is matched by every error which means that the evidence is invalid.
var ErrRejected = errors.New("attest: evidence rejected")

// Reason is why evidence was rejected: one of a fixed set, used as a metrics label.
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
	ReasonExited          Reason = "exited"
	ReasonUsed            Reason = "used"
	ReasonSelectors       Reason = "selectors"
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
