package broker

import (
	"errors"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Skew is the accepted error of a client's clock.
const Skew = 30 * time.Second

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
		return E(Forbidden, "Your principal has none of the roles this needs. Ask the operator.", nil)
	}
	if need == Doubtful {
		return nil
	}
	return who.Certain()
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
