package provider

import (
	"context"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
)

// CanInject reports whether egress can add s to requests and look for it in their answers:
// whether its length is between MinInjected and MaxInjected.
func CanInject(s secret.Secret) bool {
	n := len(s.Reveal())
	return n >= MinInjected && n <= MaxInjected
}

// SecretStore keeps the operator's secrets for drivers; package secretstore implements it.
type SecretStore interface {
	// Get opens a secret.
	Get(ctx context.Context, name string) (secret.Secret, error)
	// Exchange calls f with the secret while no other caller, on any replica, holds it. It stores
	// the result of f as the new secret; an empty result changes nothing. The context of f ends
	// before hold does.
	Exchange(ctx context.Context, name string, hold time.Duration, f func(context.Context, secret.Secret) (secret.Secret, error)) error
}
