package broker

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Skew is the accepted error of a client's clock.
const Skew = 30 * time.Second

// Role is what a principal may do. Roles are configured, never taken from a token's claims.
type Role string

// Roles of principals.
const (
	RoleViewer         Role = "viewer"          // sees tasks, requests and credentials; neither the audit log nor the agents' texts
	RoleRunner         Role = "runner"          // opens, heartbeats and completes its own tasks
	RoleApprover       Role = "approver"        // decides requests of its groups
	RoleAuditor        Role = "auditor"         // reads everything, changes nothing
	RoleOperator       Role = "operator"        // everything except deciding requests
	RoleResourceServer Role = "resource_server" // introspects, and follows the revocation feed, for its audiences
)

// Principal is an authenticated operator, runner, approver, auditor or resource
// server. Sandboxes are never principals.
type Principal struct {
	ID        string   `json:"id"`
	Roles     []Role   `json:"roles"`
	Groups    []string `json:"groups,omitempty"`    // of an approver
	Audiences []string `json:"audiences,omitempty"` // resource URIs of a resource server
	// Also are other names of the same person, by which a task may name its owner. They grant
	// nothing; they only keep the person from deciding their own requests.
	Also []string `json:"-"`
	// Bounds limit an approver: a request must be within one of them. Within limits single
	// groups of theirs. See Say.
	Bounds []scopes.Set          `json:"-"` // empty = no limit
	Within map[string]scopes.Set `json:"-"` // by group; a group that is not named has no limit of its own
	// AuthAt is when the holder of the access token authenticated (auth_time), Until when the
	// token ends. Both are zero without a token, or when the token does not name them.
	AuthAt time.Time `json:"-"`
	Until  time.Time `json:"-"`

	Doubt error // why its proof could not be checked for replay: it may only end tasks and credentials; nil = it was checked
}

// PrincipalConfig is a principal as configured, with the means by which it authenticates.
type PrincipalConfig struct {
	Principal
	Keys  []jose.Key // for private_key_jwt
	Match *Match     // or an ID token that an attestor accepts
}

// Match recognises a person by the selectors of an ID token.
type Match struct {
	Attestor  string
	Selectors map[string]string // every one must be present and equal
}

// Has reports whether p has any of the roles.
func (p Principal) Has(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// Standing is how certain the authentication of a principal must be.
type Standing int

const (
	Certain  Standing = iota // the proof was not used before
	Doubtful                 // it may have been used before, which is enough to end something
)

// Allow refuses principals without one of the roles. A principal whose proof could not be
// checked for replay, because the live store is unavailable, may only end tasks and
// credentials: replaying an end does no harm, and ending must never be blocked (I6).
func Allow(who Principal, need Standing, roles ...Role) error {
	if who.ID == "" {
		return E(Unauthenticated, "Authenticate first.", nil)
	}
	if !who.Has(roles...) {
		return E(Forbidden, "This needs the role "+oneOf(roles)+"; your principal "+Quoted(who.ID)+" has "+Named(roleNames(who.Roles))+".", nil).
			Then("act as a principal with that role: --key FILE --client-id NAME", "or ask the operator to add the role to principals in ebb's configuration")
	}
	if need == Doubtful {
		return nil
	}
	return who.Certain()
}

// oneOf returns the roles of which a call needs one.
func oneOf(roles []Role) string { return strings.Join(roleNames(roles), " or ") }

func roleNames(roles []Role) []string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return names
}

// RoleEnds is the role of a token that only ends tasks and credentials. Such a token is issued
// while a store does not answer: its proof could not be checked for replay, and it is not in
// the audit log.
const RoleEnds Role = "ends"

// EndsTTL is the lifetime of such a token.
const EndsTTL = time.Minute

var ErrEndsOnly = errors.New("the token was issued while a store did not answer, and only ends tasks and credentials")

// MayEnd reports whether p can end a task or a credential.
func (p Principal) MayEnd() bool { return p.Has(RoleRunner, RoleOperator, RoleApprover) }

// Doubtful returns p marked as having a proof that could not be checked for replay, because a
// store failed with cause. Such a principal may only end tasks and credentials.
func (p Principal) Doubtful(cause error) Principal {
	p.Doubt = cause
	return p
}

// Certain refuses a principal whose proof may have been used before. Every method that gives a
// principal something without asking for a role calls it first.
func (p Principal) Certain() error {
	if p.Doubt != nil {
		return StoreError(p.Doubt)
	}
	return nil
}

// HearsAll reports whether the revocation feed shows p all events, not only those for its
// audiences.
func (p Principal) HearsAll() bool { return p.Has(RoleOperator, RoleAuditor) }

// Possession is the proof of the caller's key, checked once for each request and before
// anything else.
type Possession struct {
	Proof *dpop.Proof // RFC 9449 proof that passed, or nil
	X5T   string      // thumbprint of the TLS client certificate, or ""
	Key   attest.Key  // the key as passed to attestors
	// From is the address of the caller, as far as the listener and its proxies know it: an
	// IPv4 address, the /64 of IPv6, or the local user. It divides rate limits; it proves
	// nothing.
	From string
}

// Binding returns the confirmation method (cnf) of a token for p: the DPoP key when a proof was
// sent, otherwise the certificate.
func (p Possession) Binding() provider.Binding {
	if p.Proof != nil {
		return provider.Binding{JKT: p.Proof.JKT}
	}
	return provider.Binding{X5T: p.X5T}
}

// Named reports whether p has one of the names, in any spelling (people.Same).
func (p Principal) Named(names ...string) bool { return people.Same(p.Names(), names) }

// Names returns all names of p.
func (p Principal) Names() []string { return append([]string{p.ID}, p.Also...) }
