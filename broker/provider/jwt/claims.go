package jwt

import (
	"encoding/json"
	"maps"
	"slices"

	"ebb/broker/provider"
	"ebb/scopes"
)

// claims are the claims of RFC 9068 section 2.2, with scope as a string (RFC
// 8693 section 4.2), cnf with one member (RFC 7800), act (RFC 8693 section 4.1)
// and, when asked for, authorization_details (RFC 9396 section 9.1).
type claims struct {
	Issuer   string           `json:"iss"`
	Subject  string           `json:"sub"`
	Audience string           `json:"aud"`
	ClientID string           `json:"client_id"`
	IssuedAt int64            `json:"iat"`
	Expiry   int64            `json:"exp"`
	ID       string           `json:"jti"`
	Scope    string           `json:"scope"`
	Cnf      provider.Binding `json:"cnf"`
	Txn      string           `json:"txn,omitempty"`
	Actor    map[string]any   `json:"act,omitempty"`
	Details  []scopes.Detail  `json:"authorization_details,omitempty"`

	private map[string]string // names in it never replace one of the above
}

func claimsOf(issuer string, g provider.Grant) claims {
	c := claims{
		Issuer: issuer, Subject: g.Subject, Audience: g.Resource, ClientID: g.Sandbox,
		IssuedAt: g.IssuedAt.Unix(), Expiry: g.ExpiresAt.Unix(), ID: g.LeaseID,
		Scope: g.Scopes.String(), Cnf: g.Binding, Txn: g.Txn, private: g.Claims,
	}
	if g.Subject != g.Sandbox {
		c.Actor = g.Actor
	}
	if g.Details {
		c.Details = scopes.DetailsOf(g.Scopes)
	}
	return c
}

// registered are the names that the struct writes or could write.
var registered = []string{
	"act", "aud", "authorization_details", "client_id", "cnf", "exp", "iat", "iss", "jti", "nbf", "scope", "sub", "txn",
}

// MarshalJSON writes the registered claims and then the private ones by name. It
// is on the path of every mint: a map would be sorted and reflected on each time.
func (c claims) MarshalJSON() ([]byte, error) {
	type plain claims
	b, err := json.Marshal(plain(c))
	if err != nil || len(c.private) == 0 {
		return b, err
	}
	b = b[:len(b)-1]
	for _, name := range slices.Sorted(maps.Keys(c.private)) {
		if _, taken := slices.BinarySearch(registered, name); taken {
			continue
		}
		member, err := json.Marshal(map[string]string{name: c.private[name]})
		if err != nil {
			return nil, err
		}
		b = append(append(b, ','), member[1:len(member)-1]...)
	}
	return append(b, '}'), nil
}
