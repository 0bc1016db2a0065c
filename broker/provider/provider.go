package provider

import (
	"context"
	"errors"
	"net/http"
	"time"

	"ebb/scopes"
)

// ErrUnsupported is wrapped by Check when a driver cannot express a scope
// exactly. The caller asked for something this provider does not have.
var ErrUnsupported = errors.New("scope not supported by this provider")

// Class says how a credential of a driver can be taken back. The zero value is
// the weakest promise.
type Class string

// Revocability classes. Never claim more than is true.
const (
	ClassTTLOnly  Class = "ttl-only" // dies by expiry alone
	ClassEventual Class = "eventual" // refused some time after Revoke returned
	ClassInstant  Class = "instant"  // refused from the moment Revoke returned
)

// Binding is the proof-of-possession key a credential is tied to. Exactly one
// member is set (RFC 7800 with one confirmation method).
type Binding struct {
	JKT string `json:"jkt,omitempty"`      // RFC 7638 SHA-256 thumbprint, base64url (RFC 9449 section 6.1)
	X5T string `json:"x5t#S256,omitempty"` // SHA-256 of the DER certificate, base64url (RFC 8705 section 3.1)
}

// Grant is what was decided: the driver mints exactly this and nothing more.
type Grant struct {
	LeaseID   string            // becomes the upstream name or jti, so that an orphan can be traced back
	TaskID    string            // task the credential dies with
	Sandbox   string            // client_id: who asked and will use it
	Subject   string            // on whose behalf: the task's owner, or the sandbox itself
	Scopes    scopes.Set        // never empty, all of one provider
	Resource  string            // RFC 8707 resource URI, the aud of own tokens
	Binding   Binding           // key the credential must be bound to where the provider can
	IssuedAt  time.Time         // the broker's clock
	ExpiresAt time.Time         // hard end; a driver may mint shorter, never longer
	Details   bool              // answer with authorization_details (RFC 9396) too
	Txn       string            // joins request, approval, token, use and revocation
	Actor     map[string]any    // RFC 8693 act claim, nil when the sandbox acts for itself
	Claims    map[string]string // collision-resistant private claims (task id, request id)
}

// Credential is what a driver minted.
type Credential struct {
	Token     Secret    // what the caller gets
	Type      string    // token_type of RFC 6749: "DPoP" or "Bearer"
	ExpiresAt time.Time // never after Grant.ExpiresAt
	Handle    Secret    // what Revoke needs; empty when the lease id alone is enough
}

// Driver mints and takes back credentials of one provider. Implementations are
// safe for concurrent use.
//
// Mint must not leave a credential behind when it returns an error; if it cannot
// know, it returns the handle together with the error and the broker owes a
// Revoke. Revoke is idempotent: an unknown or already dead handle is success.
type Driver interface {
	Check(scopes.Set) error // wraps ErrUnsupported; anything else means "could not judge"
	Mint(context.Context, Grant) (Credential, error)
	Revoke(ctx context.Context, leaseID string, handle Secret) error
	Class() Class
}

// Injector is implemented by drivers whose credentials the egress proxy can add
// to a request after it has left the sandbox.
type Injector interface {
	Inject(*http.Request, Credential) error
}

// Prober is implemented by drivers that can tell whether a credential still
// works at the provider.
type Prober interface {
	Probe(context.Context, Credential) (alive bool, err error)
}
