package jwt

import (
	"ebb/broker/provider"
	"ebb/scopes"
)

// Describe implements provider.Describer: what an action means is the resource
// server's to say.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) { return provider.ByAction(s), nil }
