package provider

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrUnsupported is wrapped by Check when a driver cannot express a scope
	// exactly. The caller asked for something this provider does not have.
	ErrUnsupported = errors.New("scope not supported by this provider")

	// ErrRefused is wrapped by Mint if the provider evaluated the request and refused it, or if
	// ebb's own login is unusable and nothing was sent. In both cases no credential exists, and a
	// retry fails in the same way until a person changes the configuration. Wrapped by Revoke or
	// Probe, it means that nothing was sent and the revocation is still pending. See Refused.
	ErrRefused = errors.New("the provider refused")

	// ErrElsewhere is wrapped by Inject when a credential is not for this request:
	// another host, method or path, or one that can be read in more than one way.
	ErrElsewhere = errors.New("the credential is not for this request")

	// ErrLost is wrapped by Revoke if the credential that Mint may have made cannot be named: the
	// response of Mint was lost, and the provider does not know lease ids. A retry does not help.
	// The credential expires at the Target's DiesAt, and until then it must not be reported as
	// dead.
	ErrLost = errors.New("what may have been minted cannot be named")
)

// ElsewhereError is an ErrElsewhere and why.
type ElsewhereError struct {
	Why string // half a sentence ("its host ..."), which holds nothing that the sandbox wrote
}

// Elsewhere makes an ElsewhereError.
func Elsewhere(why string) error { return &ElsewhereError{why} }

// Error implements error.
func (e *ElsewhereError) Error() string { return ErrElsewhere.Error() + ": " + e.Why }

// Unwrap makes errors.Is(err, ErrElsewhere) hold.
func (e *ElsewhereError) Unwrap() error { return ErrElsewhere }

// RefusedError is an ErrRefused with a sentence for the caller.
type RefusedError struct {
	Public string // one sentence, ASCII, no secrets, says what to do next
	Cause  error  // for the log
}

// Refused makes a RefusedError.
func Refused(public string, cause error) error { return &RefusedError{Public: public, Cause: cause} }

// Inexact refuses scopes that the driver cannot express exactly.
func Inexact(cause error) error {
	return Refused("The provider cannot express a scope exactly. Ask for one it documents.", cause)
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Cause == nil {
		return e.Public
	}
	return fmt.Sprintf("%s: %v", e.Public, e.Cause)
}

// Unwrap makes errors.Is(err, ErrRefused) hold.
func (e *RefusedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrRefused}
	}
	return []error{ErrRefused, e.Cause}
}

// BusyError says that the provider limits the rate: nothing was made, and After
// is how long to wait before the next call (Retry-After of RFC 9110 section 10.2.3,
// or what the provider has in its place). From Mint it keeps mints waiting, from
// List lists; from all else, every call.
type BusyError struct {
	After time.Duration // more than 0
	Cause error
}

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("busy for %s: %v", e.After, e.Cause) }

// Unwrap gives the cause.
func (e *BusyError) Unwrap() error { return e.Cause }
