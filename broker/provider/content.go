package provider

import (
	"context"
	"net/http"
	"slices"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// ContentJudge is an Injector with scopes for what the body of a request does, such as the branch
// that a push changes.
type ContentJudge interface {
	// Judged reports whether some of these scopes are narrower than any credential of the provider,
	// so that only Judge enforces them. Such a credential never leaves ebb, except in requests that
	// egress sends.
	Judged(scopes.Set) bool
	// Judge reads the body of a request that Inject has accepted, and returns what the body does;
	// r.Body then yields the same bytes again, so that it can be judged again for another
	// lease. The facts are zero if the body does not matter. The Reply refuses the request, also when
	// the scopes cover it and a limit of the lease does not. The error is a *content.Error for a body
	// that is refused at any scopes, and an *UncoveredError for one that needs other scopes. After any
	// error the request must not be sent with this lease.
	Judge(context.Context, *http.Request, Target) (content.Facts, Reply, error)
}

// AmountReader is a ContentJudge whose facts state what requests spend.
type AmountReader interface {
	// ReadsAmounts reports whether the facts of every request of this scope that may change something
	// have an amount. It is true for a scope whose requests only read.
	ReadsAmounts(scopes.Scope) bool
}

// UncoveredError is an ErrElsewhere for a body that does more than the scopes of its lease allow.
type UncoveredError struct {
	Needed scopes.Set // what one lease must have for the whole request; empty = no scope allows it
	Why    string     // a clause such as "its lease does not allow every change of the push", without text from the sandbox

	// Content is the id of the facts (broker.ContentID), to which an approval can be limited. Reply is
	// that of Judge. Egress sets both.
	Content string
	Reply   Reply
}

// Reply returns a response with status 200 that refuses a request in its protocol, so that the client
// shows text to its user. nil = the protocol has no such response: the request gets an HTTP error.
type Reply func(text string) (mediaType string, body []byte)

// Error implements error.
func (e *UncoveredError) Error() string { return ErrElsewhere.Error() + ": " + e.Why }

// Unwrap returns ErrElsewhere.
func (e *UncoveredError) Unwrap() error { return ErrElsewhere }

// PolicyContent returns facts as a policy sees them; nil facts are the zero Content. Amounts of
// different units have no sum: the policy then sees the largest amount, and takes them for no small one.
func PolicyContent(f *content.Facts) policy.Content {
	if f == nil {
		return policy.Content{}
	}
	out := policy.Content{Kind: f.Kind}
	for _, o := range f.Operations {
		out.Actions, out.Objects = append(out.Actions, o.Action), append(out.Objects, o.Object)
	}
	for _, set := range []*[]string{&out.Actions, &out.Objects} {
		slices.Sort(*set)
		*set = slices.Compact(*set)
	}
	var err error
	if out.Amount, err = f.Amount(); err != nil {
		out.Amount = amount.Amount{Unit: "mixed", Value: amount.Max}
	}
	return out
}
