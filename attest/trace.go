package attest

import "context"

// Step is one check of evidence that passed, for `ebb attest explain`. Text is
// of the kind; what comes from evidence is data, drawn quoted by whoever shows it.
type Step struct {
	Check string // what was checked, a few fixed words: "audience"
	Found string // what was found, "" when there is nothing to show
}

type traceKey struct{}

// WithTrace makes Passed tell of each step. Without it Passed costs a look into
// the context.
func WithTrace(ctx context.Context, tell func(Step)) context.Context {
	return context.WithValue(ctx, traceKey{}, tell)
}

// Passed says that a check passed. Secrets do not go into found.
func Passed(ctx context.Context, check, found string) {
	if tell, on := ctx.Value(traceKey{}).(func(Step)); on {
		tell(Step{Check: check, Found: found})
	}
}
