package attest

import (
	"context"
	"time"
)

// Challenger is an Attestor whose evidence answers a challenge of ebb's, so that
// it was made now, for this ebb and for the key that asked.
type Challenger interface {
	Attestor
	// Challenge makes what evidence must answer. e.Key is proved, e.Document is
	// what the kind's page says, often nothing. Errors are those of Attest.
	Challenge(ctx context.Context, e Evidence) (Challenge, error)
}

// Challenge is what a caller answers with evidence.
type Challenge struct {
	// Nonce goes into the evidence as the kind's page says.
	Nonce string
	// Document is more that the kind sends, JSON; nil: nothing.
	Document []byte
	// ExpiresAt is when the answer comes too late.
	ExpiresAt time.Time
}
