package aws

import (
	"ebb/broker/provider"
	"ebb/scopes"
)

// Describe implements provider.Describer: S3's actions are known, those of statements
// are words of the operator's.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	one, err := scopes.NewSet(s)
	if err != nil {
		return provider.Effect{}, err
	}
	if err := d.Check(one); err != nil {
		return provider.Effect{}, err
	}
	switch s.Action() {
	case actWrite, actDelete, actPromote:
		return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "Objects come back only if the bucket keeps versions."}, nil
	}
	return provider.ByAction(s), nil
}
