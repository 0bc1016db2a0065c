package jwt

import (
	"maps"

	"ebb/broker/provider"
	"ebb/scopes"
)

// claims are the claims of RFC 9068 section 2.2, with scope as a string (RFC
// 8693 section 4.2), cnf with one member (RFC 7800), act (RFC 8693 section 4.1)
// and, when asked for, authorization_details (RFC 9396 section 9.1).
func claims(issuer string, g provider.Grant) map[string]any {
	c := map[string]any{
		"iss": issuer, "sub": g.Subject, "aud": g.Resource, "client_id": g.Sandbox,
		"iat": g.IssuedAt.Unix(), "exp": g.ExpiresAt.Unix(), "jti": g.LeaseID,
		"scope": g.Scopes.String(), "cnf": g.Binding,
	}
	if g.Txn != "" {
		c["txn"] = g.Txn
	}
	if g.Actor != nil && g.Subject != g.Sandbox {
		c["act"] = maps.Clone(g.Actor)
	}
	if g.Details {
		c["authorization_details"] = scopes.DetailsOf(g.Scopes)
	}
	for name, value := range g.Claims {
		if _, taken := c[name]; !taken { // a private claim never replaces a registered one
			c[name] = value
		}
	}
	return c
}
