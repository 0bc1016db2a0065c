package kubernetes

import (
	"fmt"

	"ebb/broker/provider"
	"ebb/scopes"
)

// Describe implements provider.Describer: actions are words of the operator's.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, known := d.cfg.Grants.Of(s); !known {
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	}
	return provider.ByAction(s), nil
}
