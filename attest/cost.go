package attest

import "context"

type boundKey struct{}

// WithBound makes Costly ask enter first. leave is called once when the work is done.
func WithBound(ctx context.Context, enter func(context.Context) (leave func(), err error)) context.Context {
	return context.WithValue(ctx, boundKey{}, enter)
}

// Costly is what a kind calls before it does what costs more than a few signatures: a
// request to somebody else, a look at a large file. By then it has judged all that
// costs nothing, a challenge's nonce before all. An error is to be handed on, wrapped
// or not, and the work left undone. Without a bound it always may.
func Costly(ctx context.Context) (leave func(), err error) {
	if enter, on := ctx.Value(boundKey{}).(func(context.Context) (func(), error)); on {
		return enter(ctx)
	}
	return func() {}, nil
}
