package attesttest

import (
	"context"
	"errors"

	"ebb/attest"
)

// ErrBound is what the bound of Bounded answers.
var ErrBound = errors.New("attesttest: no more of what costs others")

// Bounded is ctx for a kind that may do nothing that costs others; asked counts how
// often it wanted to. It is for one goroutine.
func Bounded(ctx context.Context) (bounded context.Context, asked *int) {
	asked = new(int)
	return attest.WithBound(ctx, func(context.Context) (func(), error) {
		*asked++
		return nil, ErrBound
	}), asked
}
