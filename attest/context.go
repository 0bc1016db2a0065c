package attest

import "context"

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
