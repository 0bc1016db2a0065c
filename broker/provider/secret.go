package provider

import (
	"context"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
)

// Secret holds a credential. Package secret has the type, so that clients of ebb can use it without
// drivers.
type Secret = secret.Secret

// NewSecret returns a Secret that holds s.
func NewSecret(s string) Secret { return secret.New(s) }

// CanInject reports whether egress can add s to requests and look for it in their answers:
// whether its length is between MinInjected and MaxInjected.
func CanInject(s Secret) bool {
	n := len(s.Reveal())
	return n >= MinInjected && n <= MaxInjected
}

// SecretStore keeps the operator's secrets for drivers; package secretstore implements it.
type SecretStore interface {
	// Get opens a secret.
	Get(ctx context.Context, name string) (Secret, error)
	// Exchange calls f with the secret while no other caller, on any replica, holds it. It stores
	// the result of f as the new secret; an empty result changes nothing. The context of f ends
	// before hold does.
	Exchange(ctx context.Context, name string, hold time.Duration, f func(context.Context, Secret) (Secret, error)) error
}
