package broker

import (
	"errors"
	"slices"
	"time"

	"ebb/attest/jose"
)

// skew is how far a client's clock may be off.
const skew = 30 * time.Second

// PrincipalConfig is a principal as configured: who it is and how it proves that.
type PrincipalConfig struct {
	Principal
	Keys  []jose.Key // for private_key_jwt
	Match *Match     // or an ID token that an attestor accepts
}

// Match recognises a person by an ID token.
type Match struct {
	Attestor  string
	Selectors map[string]string // every one must be present and equal
}

// Has reports whether p has any of the roles.
func (p Principal) Has(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(p.Roles, r) })
}

// standing is how sure it must be that a principal is here now.
type standing int

const (
	certain  standing = iota // nobody has used the proof before
	doubtful                 // they may have, which is enough to end something
)

// allow refuses principals without one of the roles. A principal whose proof
// could not be checked for replay, because the ledger is gone, may only end
// things: replaying an end does no harm, and ending must never be blocked (I6).
func allow(who Principal, need standing, roles ...Role) error {
	if who.ID == "" {
		return E(Unauthenticated, "Authenticate first.", nil)
	}
	if !who.Has(roles...) {
		return E(Forbidden, "Your principal has none of the roles this needs. Ask the operator.", nil)
	}
	if need == doubtful {
		return nil
	}
	return who.Certain()
}

// roleEnds is on a token that only ends things: it was issued while a store did not
// answer, so that nobody can say whether its proof was used before, and it is on no record.
const roleEnds Role = "ends"

// endsTTL is how long such a token lives.
const endsTTL = time.Minute

var errEndsOnly = errors.New("the token was issued while a store did not answer, and only ends things")

// mayEnd reports whether p can end anything.
func (p Principal) mayEnd() bool { return p.Has(RoleRunner, RoleOperator, RoleApprover) }

// Doubtful is p with a proof of which a store that failed with cause cannot say whether it
// is good still. Such a principal only ends things.
func (p Principal) Doubtful(cause error) Principal {
	p.doubt = cause
	return p
}

// Certain refuses a principal whose proof may have been used before. Whatever is given
// to one, and by no method of the broker that asks for a role, asks this first.
func (p Principal) Certain() error {
	if p.doubt != nil {
		return unavailable(p.doubt)
	}
	return nil
}
