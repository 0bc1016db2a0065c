package safe

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNone is wrapped when there is no secret of that name.
	ErrNone = errors.New("there is no secret of that name")
	// ErrHeld is wrapped when somebody else holds the secret, or the holder's time
	// was over before it came back.
	ErrHeld = errors.New("the secret is held by another")
)

// Row is a secret as the store keeps it.
type Row struct {
	Name      string
	Sealed    string
	Fence     int64 // higher with each claim and each Put
	Version   int64 // another with each change of the secret; sealed again, it is the same
	ChangedAt time.Time
}

// Store keeps sealed secrets; replicas share it. Every method is atomic.
type Store interface {
	// Secrets returns those with the given names, or all, by name.
	Secrets(ctx context.Context, names ...string) ([]Row, error)
	// PutSecret inserts or replaces one, whoever holds it, so that its holder's
	// settlement fails; with an empty Sealed it removes it (ErrNone).
	PutSecret(ctx context.Context, r Row) error
	// ClaimSecret makes the caller the only holder until then: ErrHeld, ErrNone.
	ClaimSecret(ctx context.Context, name string, now, until time.Time) (Row, error)
	// SettleSecret ends the claim with this fence and, unless sealed is empty,
	// replaces the secret: ErrHeld when there is a later claim, ErrNone.
	SettleSecret(ctx context.Context, name string, fence int64, sealed string, at time.Time) error
	Rotation
}

// Rotation is what a Store does for a new key.
type Rotation interface {
	// SecretsNotBy returns up to n (1..1000) secrets that this key did not seal, by
	// name and after the name given ("" = from the first).
	SecretsNotBy(ctx context.Context, key, after string, n int) ([]Row, error)
	// ResealSecret replaces one sealed form of a secret by another of the same secret,
	// and nothing else: neither its version nor a claim. When it is not from any more,
	// it is another secret or somebody else was first, and that is no error.
	ResealSecret(ctx context.Context, name, from, to string) error
}
