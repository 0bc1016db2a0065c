package secretstore

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNone is wrapped for an unknown name.
	ErrNone = errors.New("no secret has this name")
	// ErrHeld is wrapped if another caller has claimed the secret, also because the own claim
	// expired first.
	ErrHeld = errors.New("another caller holds the secret")
)

// Row is a secret in the database.
type Row struct {
	Name      string
	Sealed    string
	Fence     int64 // higher with each claim and each Put
	Version   int64 // changes with each new secret, not with a new seal
	ChangedAt time.Time
}

// Database keeps sealed secrets; replicas share it. Every method is atomic.
type Database interface {
	// Secrets returns the secrets with the given names, or all, sorted by name.
	Secrets(ctx context.Context, names ...string) ([]Row, error)
	// PutSecret inserts or replaces a secret. It ignores a claim, whose SettleSecret then fails.
	// With an empty Sealed it removes the secret (ErrNone).
	PutSecret(ctx context.Context, r Row) error
	// ClaimSecret claims the secret until the given time. Errors: ErrHeld, ErrNone.
	ClaimSecret(ctx context.Context, name string, now, until time.Time) (Row, error)
	// SettleSecret ends the claim with this fence and replaces the secret, unless sealed is
	// empty. Errors: ErrHeld if there is a later claim, ErrNone.
	SettleSecret(ctx context.Context, name string, fence int64, sealed string, at time.Time) error
	Rotation
}

// Rotation is the part of Database for a new sealing key.
type Rotation interface {
	// SecretsNotBy returns up to n (1..1000) secrets that another key sealed, sorted by name, from
	// the first name after the given one.
	SecretsNotBy(ctx context.Context, key, after string, n int) ([]Row, error)
	// ResealSecret replaces the sealed form from by to, and leaves the version and the claim. It is
	// not an error if the stored form is no longer from: the secret was replaced, or another
	// replica sealed it first.
	ResealSecret(ctx context.Context, name, from, to string) error
}
