package provider

import (
	"context"
	"time"
)

// Safe keeps the operator's secrets for drivers; package safe implements it.
type Safe interface {
	// Get opens a secret.
	Get(ctx context.Context, name string) (Secret, error)
	// Exchange calls f with the secret while nobody else, on any replica, holds it,
	// and keeps what f returns in its place; empty = unchanged. f's context ends
	// before hold does.
	Exchange(ctx context.Context, name string, hold time.Duration, f func(context.Context, Secret) (Secret, error)) error
}
