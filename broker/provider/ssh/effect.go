package ssh

import (
	"strings"

	"ebb/broker/provider"
	"ebb/scopes"
)

// Describe implements provider.Describer: whoever runs commands can do anything that
// the account can, whichever command is forced.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, _, _, err := d.set.target(s); err != nil {
		return provider.Effect{}, err
	}
	if _, more := extensions[s.Action()]; !more && s.Action() != actionLogin && !strings.HasPrefix(s.Action(), actionRun) {
		return provider.Effect{}, unsupported("%s: there is no such action", s)
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "What a command did on a host cannot be undone."}, nil
}
