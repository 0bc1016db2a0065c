package attest

import (
	"context"
	"errors"
	"time"
)

// Challenger is an Attestor whose evidence must contain a nonce from ebb. The nonce
// proves that the evidence is fresh and was made for this ebb and for the key that
// asked for the challenge.
type Challenger interface {
	Attestor
	// Challenge returns the nonce that the evidence must contain. e.Key is proved.
	// e.Document is empty for most kinds; the kind's page in docs/attestors says what
	// it holds otherwise. Errors mean the same as those of Attest.
	Challenge(ctx context.Context, e Evidence) (Challenge, error)
}

// Challenge is the answer to a request for a challenge.
type Challenge struct {
	// Nonce is included in the evidence in the way that the kind's page describes.
	Nonce string
	// Document is additional JSON for the client; nil for kinds that send none.
	Document []byte
	// ExpiresAt is the time from which evidence with Nonce is refused.
	ExpiresAt time.Time
}

// ClientAuth is an Attestor whose evidence is also an OAuth client authentication
// method, so that a workload can request tokens with the credential it already has.
type ClientAuth interface {
	Attestor
	// ClientMethods returns the methods that this instance accepts. It may be empty.
	ClientMethods() []ClientMethod
}

// ClientMethod is one client authentication method. Its name is registered for
// token_endpoint_auth_methods_supported (RFC 8414 section 2).
type ClientMethod struct {
	Name string
	// AssertionType is the client_assertion_type of its document (RFC 7521 section
	// 4.2); "" for methods that use only the client certificate.
	AssertionType string
}

// Personal is an Attestor that also judges the ID tokens of people. Workload tokens,
// access tokens and tokens for another client are refused as ID tokens, although the
// same issuer signs them.
type Personal interface {
	Attestor
	// ForPeople returns an Attestor of the same issuer that accepts ID tokens only.
	ForPeople() Attestor
}

// Registrar is an Attestor that refuses, when a task is opened, registrations that
// would match more than one sandbox.
type Registrar interface {
	Attestor
	// CheckRegistration returns an error when the selectors that a runner registers
	// do not identify one sandbox. The error is shown to the runner: it names the
	// selectors to add and contains none of the values.
	CheckRegistration(selectors map[string]string) error
}

// Selecting is an Attestor that can list, from its configuration, every selector
// that its identities can have.
type Selecting interface {
	Attestor
	// SelectorNames returns the names in the order in which they are displayed.
	SelectorNames() []string
}

// Reattester is an Attestor that knows whether a sandbox can present fresh evidence
// at intervals while its task is open.
type Reattester interface {
	Attestor
	// CheckReattest returns nil when a sandbox can, otherwise the reason.
	CheckReattest() error
}

// Watcher is an Attestor that can detect that a sandbox has exited.
type Watcher interface {
	Attestor
	// Watch blocks until the sandbox of id has exited. id is the Identity that Attest
	// returned, as read from the database: only Attestor, Subject, Class and Selectors
	// are set, and it may date from before a restart or come from another replica.
	//
	// Watch returns how the sandbox ended; ErrElsewhere when this process cannot
	// observe the sandbox; ctx's error; or another error when it cannot tell at
	// present. After such an error the caller waits, calls Watch again, and keeps
	// treating the sandbox as running.
	Watch(ctx context.Context, id Identity) (Exit, error)
}

// Exit describes the exit of a sandbox.
type Exit struct {
	// At is the time of the exit as far as it is known; zero when only its detection
	// just now is known.
	At time.Time
	// How is one of a fixed set of words of the kind, such as "process_exited" or
	// "pod_deleted". It is used as a metrics label and in the audit log.
	How string
}

// ErrElsewhere is returned by Watch for a sandbox that runs where this process
// cannot observe it.
var ErrElsewhere = errors.New("attest: the sandbox cannot be watched from this machine; a replica on the sandbox's own machine can")

type boundKey struct{}

// WithBound returns a context in which Costly calls enter before expensive work.
// The leave function that enter returns is called once when the work is done.
func WithBound(ctx context.Context, enter func(context.Context) (leave func(), err error)) context.Context {
	return context.WithValue(ctx, boundKey{}, enter)
}

// Costly asks for permission to do work that costs more than checking a few
// signatures: a request to another server, or reading a large file. A kind calls it
// after all cheap checks have passed, the nonce of a challenge first. On an error the
// kind skips the work and returns the error, wrapped or not. Without WithBound every
// call succeeds.
func Costly(ctx context.Context) (leave func(), err error) {
	if enter, on := ctx.Value(boundKey{}).(func(context.Context) (func(), error)); on {
		return enter(ctx)
	}
	return func() {}, nil
}

// Step is one check of evidence that passed, as 'ebb attest explain' shows it.
type Step struct {
	Check string // Check is the name of the check, from a small fixed set: "audience".
	Found string // Found is the value that passed, "" for none. It may come from evidence, so displays quote it.
}

type traceKey struct{}

// WithTrace returns a context in which Passed calls report with each step.
func WithTrace(ctx context.Context, report func(Step)) context.Context {
	return context.WithValue(ctx, traceKey{}, report)
}

// Passed reports that a check passed. found must not contain a secret. Without
// WithTrace, Passed does nothing beyond one lookup in ctx.
func Passed(ctx context.Context, check, found string) {
	if report, on := ctx.Value(traceKey{}).(func(Step)); on {
		report(Step{Check: check, Found: found})
	}
}
