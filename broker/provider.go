package broker

import (
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Dependency is the state of one system that the broker needs.
type Dependency struct {
	Name    string
	Err     error  // why it cannot be used; for the log
	Warning string // it works, and the operator should look at it; may be shown
	Detail  string
}

// Provider is a configured provider instance. Its name is the first part of
// every scope it serves.
type Provider struct {
	Driver   provider.Driver
	Kind     string         // kind of driver, e.g. "jwt"
	Resource string         // RFC 8707 resource URI, the aud of its tokens
	Words    provider.Words // the operator's description of which effects can be undone
	MaxTTL   time.Duration  // longest lifetime of a credential; 0 = Limits.MaxTTL

	// For third parties only. Mints and revocations have Parallel calls each.
	Parallel int // concurrent calls; 0 = 16
	MaxLive  int // credentials in no final state; 0 = no limit. Replicas count them every few seconds
}

// Sealer encrypts revocation handles at rest (I8). A sealed handle names its key and opens only
// for the lease for which it was sealed.
type Sealer interface {
	// Seal encrypts s with the newest key. sealed is printable ASCII; the key's id stands
	// between its only two dots.
	Seal(leaseID string, s secret.Secret) (sealed string, err error)
	// Open fails when the key is missing, or when sealed was made for another lease or was
	// altered.
	Open(leaseID, sealed string) (secret.Secret, error)
	// KeyID returns the id of the key that Seal uses now, as it appears in sealed handles.
	KeyID() string
	// Err returns why sealing or opening fails now, or will fail after the next start.
	Err() error
}

// Endpoint returns where sessions with a provider's credential for these scopes connect to.
func Endpoint(p Provider, s scopes.Set) (at provider.Endpoint, is bool) {
	c, connects := p.Driver.(provider.Connector)
	if !connects {
		return provider.Endpoint{}, false
	}
	return c.Endpoint(s)
}
