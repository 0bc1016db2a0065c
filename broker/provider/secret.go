package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// CanInject reports whether egress can add s to requests and find it in responses: its
// length must be between MinInjected and MaxInjected.
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

// MinInjected and MaxInjected bound the length, in bytes, of a secret that egress adds to
// requests and looks for in responses. A shorter text could occur by chance. A longer one
// exceeds the header limit of servers (8 KiB a line in nginx and Apache by default).
const (
	MinInjected = 8
	MaxInjected = 8 << 10
)

// Presenter is an Injector whose credential is, or includes, a TLS client certificate, which
// ebb uses on its connections.
type Presenter interface {
	// Presents returns the client certificate for the host of a request that Inject has accepted,
	// or nil. The error wraps clientcert.ErrUnusable if the certificate cannot be used, and
	// ErrElsewhere as for Inject.
	Presents(context.Context, *http.Request, Target) (*clientcert.Certificate, error)
}

var (
	headerForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
	prefixForm = lazyregexp.New(`^([!-~][ -~]{0,63})?$`)
)

// framing holds the headers that define the length, type, destination or forwarding of a message
// (RFC 9110 section 7.6.1).
var framing = []string{
	"connection", "content-encoding", "content-length", "content-range", "content-type", "expect", "host", "keep-alive", "proxy-authenticate",
	"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// CheckHeader refuses a header name, or a prefix of its value, that cannot hold a credential.
func CheckHeader(name, prefix string) error {
	switch {
	case !headerForm.MatchString(name) || slices.Contains(framing, stricturl.Fold(name)) || stricturl.Overrides(name):
		return fmt.Errorf("%q is not a header that can hold a credential: take Authorization, X-Api-Key or the like", name)
	case !prefixForm.MatchString(prefix):
		return errors.New("the prefix is what the header's value begins with: up to 64 printable ASCII characters, the first no space")
	}
	return nil
}

// SetHeader sets a header to one value. It removes every other spelling of the name, which some
// server could take for this header, from the header and the trailer.
func SetHeader(r *http.Request, name, value string) {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for k := range h {
			if stricturl.Fold(k) == stricturl.Fold(name) {
				delete(h, k)
			}
		}
	}
	r.Header.Set(name, value)
}

// A placeholder replaces, in the sandbox, a credential that stays in ebb. It names a lease
// and is not a proof of identity: the sandbox must authenticate itself as well.
const (
	PlaceholderPrefix = "ebb-placeholder."
	PlaceholderFormat = "urn:ebb:token-type:placeholder" // issued_token_type (RFC 8693 section 3)
)

// Placeholder returns the placeholder of a lease.
func Placeholder(leaseID string) secret.Secret { return secret.New(PlaceholderPrefix + leaseID) }
