package jose

import "errors"

// ErrToken is matched by every error that is the caller's fault. An error that
// does not match it means that the token could not be judged (for example: the
// keys could not be loaded).
var ErrToken = errors.New("jose: token refused")

// ErrKeyUnknown is matched, beside ErrToken, when no key answers to the token's
// kid. The holder of a remote key set may refresh it and try once more.
var ErrKeyUnknown = errors.New("jose: key unknown")

// Reason says why a token was refused. The set is fixed, so that a Reason can
// be a metrics label.
type Reason string

// The reasons.
const (
	ReasonMalformed   Reason = "malformed"
	ReasonOversized   Reason = "oversized"
	ReasonHeader      Reason = "header"
	ReasonType        Reason = "type"
	ReasonAlgorithm   Reason = "algorithm"
	ReasonKey         Reason = "key"
	ReasonKeyUnknown  Reason = "key_unknown"
	ReasonSignature   Reason = "signature"
	ReasonIssuer      Reason = "issuer"
	ReasonAudience    Reason = "audience"
	ReasonExpired     Reason = "expired"
	ReasonNotYetValid Reason = "not_yet_valid"
	ReasonLifetime    Reason = "lifetime"
	ReasonClaims      Reason = "claims"
)

// Error is a refusal. Public is one sentence without quotes or backslashes (it
// fits an RFC 6749 error_description) and never repeats what the token said.
type Error struct {
	Reason Reason
	Public string
	cause  error
}

func (e *Error) Error() string {
	if e.cause == nil {
		return "token refused: " + e.Public
	}
	return "token refused: " + e.Public + ": " + e.cause.Error()
}

// Unwrap returns the cause, which is for logs and not for the caller.
func (e *Error) Unwrap() error { return e.cause }

// Is matches ErrToken always and ErrKeyUnknown for that reason.
func (e *Error) Is(target error) bool {
	return target == ErrToken || (target == ErrKeyUnknown && e.Reason == ReasonKeyUnknown)
}

func refuse(r Reason, public string) error { return &Error{Reason: r, Public: public} }

func refuseBecause(r Reason, public string, cause error) error {
	return &Error{Reason: r, Public: public, cause: cause}
}

// KeyUnknown is what a KeySource returns when it has no key for a header.
func KeyUnknown() error {
	return refuse(ReasonKeyUnknown, "the token names a key that its issuer does not publish")
}
