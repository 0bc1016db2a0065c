package static

import (
	"fmt"
	"net/http"
	"slices"

	"ebb/broker/provider"
	"ebb/scopes"
)

// Describe implements provider.Describer: by the methods of the requests that the
// secret is added to.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	rule, known := d.cfg.Grants.Of(s)
	switch {
	case !known:
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	case !slices.ContainsFunc(rule.Methods, func(m string) bool { return m != http.MethodGet && m != http.MethodHead && m != http.MethodOptions }):
		return provider.Reading(), nil
	case slices.Contains(rule.Methods, http.MethodDelete):
		return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "What is deleted by it does not come back."}, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "ebb does not know whether this can be undone."}, nil
}
