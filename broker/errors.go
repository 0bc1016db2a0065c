package broker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// Kind classifies a refusal. web maps it to a status code, and no other package chooses one.
type Kind string

// The kinds. Each is named after the caller's mistake, not after the part that failed.
const (
	Invalid         Kind = "invalid_request"               // malformed or contradictory input
	InvalidScope    Kind = "invalid_scope"                 // unknown, malformed or excessive scope
	InvalidTarget   Kind = "invalid_target"                // unknown or forbidden resource
	InvalidDetails  Kind = "invalid_authorization_details" // RFC 9396 section 5
	InvalidGrant    Kind = "invalid_grant"                 // bad assertion, ticket, deferral code
	InvalidEvidence Kind = "invalid_evidence"              // attestation failed
	InvalidProof    Kind = "invalid_dpop_proof"            // RFC 9449 section 5
	UseNonce        Kind = "use_dpop_nonce"                // RFC 9449 section 8
	Unauthenticated Kind = "invalid_client"                // the caller is not authenticated
	Forbidden       Kind = "forbidden"                     // authenticated, but not allowed to do this
	StepUpRequired  Kind = "step_up_required"              // the approval lacks a proof that its risk demands
	Denied          Kind = "access_denied"                 // the policy or a person denied it
	AskRequired     Kind = "approval_required"             // a person must decide, and the caller cannot wait
	Pending         Kind = "authorization_pending"         // a person is deciding
	SlowDown        Kind = "slow_down"                     // polled too fast
	ExpiredRequest  Kind = "expired_token"                 // no decision in time
	NotFound        Kind = "not_found"                     // it does not exist, or the caller may not see it
	Conflict        Kind = "conflict"                      // the state or the facts have changed
	NotUnderstood   Kind = "not_understood"                // ebb cannot read the scopes, so that no approval is possible
	TooMany         Kind = "too_many_requests"             // a cap or rate was hit
	Unavailable     Kind = "temporarily_unavailable"       // a store or provider is down: fail closed
	Internal        Kind = "internal"                      // every error without a kind
)

// Sentinel errors of the stores. Stores wrap them; the broker turns them into an Error.
var (
	ErrNotFound          = errors.New("not found")
	ErrDone              = errors.New("already in a final state")                       // a compare-and-swap lost
	ErrStale             = errors.New("facts have changed")                             // the digest differs
	ErrClaimed           = errors.New("already claimed")                                // replay
	ErrForgotten         = errors.New("may have been claimed")                          // the clock was set back; returned with ErrClaimed
	ErrTaskClosed        = errors.New("task is closed")                                 //
	ErrTaskPaused        = errors.New("task is paused")                                 //
	ErrCap               = errors.New("cap reached")                                    //
	ErrOwnerCap          = errors.New("cap of the owner reached")                       // over all tasks of the owner
	ErrLost              = errors.New("live state was lost since it was last complete") // see Guard
	ErrEvicting          = errors.New("live store may evict keys: set maxmemory-policy to noeviction")
	ErrExists            = errors.New("already exists")                    //
	ErrOutranked         = errors.New("an operator did that")              // only an operator undoes it
	ErrUnjudged          = errors.New("an attestor cannot check evidence") // as far as this process knows, it is down
	ErrUnwritten         = errors.New("the audit log takes no writes")     //
	ErrMissing           = errors.New("the database lacks entries of the audit log that were durable")
	ErrPendingRevocation = errors.New("the revocation at the provider is pending") // only the revocation queue settles it
)

// Reason is an error that may be shown to every caller: one sentence of a fixed set that says
// why a store cannot be used and what to do. Stores wrap it.
type Reason string

// Error implements error.
func (r Reason) Error() string { return string(r) }

// Error is the only error that the broker's methods return to a caller: a kind, a sentence that
// may be shown to every caller, and the cause, which may not.
type Error struct {
	Kind       Kind
	Public     string        // one sentence in ASCII that says what to do next
	Cause      error         // for the log only
	RetryAfter time.Duration // how long to wait; 0 = waiting does not help
	Advice     *Advice       // machine-readable answer to a denied agent, or nil
	Pending    *PendingInfo  // set with kind Pending, or nil
	Reached    *Reached      // how far an end is recorded that is not recorded everywhere yet, or nil
	Missing    []string      // set with kind StepUpRequired: the proofs that the approval lacks
	Next       []string      // steps that the caller can take next, in the words of the command line
}

// Error implements error. It is for logs: it holds the cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return string(e.Kind) + ": " + e.Public
	}
	return fmt.Sprintf("%s: %s: %v", e.Kind, e.Public, e.Cause)
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// E returns an Error.
func E(kind Kind, public string, cause error) *Error {
	return &Error{Kind: kind, Public: public, Cause: cause}
}

func IsError(err error) bool {
	_, is := errors.AsType[*Error](err)
	return is
}

// AsError turns any error into an *Error. An unknown error becomes Internal, so that no
// internal text reaches a response by accident.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return E(Internal, "The broker failed. Try again; if it lasts, ask the operator.", err)
}

// StoreError is the one answer while a store or provider cannot decide.
func StoreError(cause error) *Error {
	return &Error{Kind: Unavailable, Public: "A part of the broker is unavailable. Nothing was issued; try again shortly.", Cause: cause, RetryAfter: 5 * time.Second}
}

// PublicOf returns the public sentence of an error of jose or attest, otherwise the sentence
// given.
func PublicOf(err error, otherwise string) string {
	if e, ok := errors.AsType[*jose.Error](err); ok {
		return sentence(e.Public)
	}
	if e, ok := errors.AsType[*attest.Rejection](err); ok {
		return sentence(e.Public)
	}
	return otherwise
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}
