package gcp

import (
	"fmt"
	"strings"

	"ebb/broker/provider"
	"ebb/scopes"
)

// Describe implements provider.Describer: by the role that an action in a bucket is
// cut down to; what else accounts may do, the operator's words say.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, ok := d.cfg.Grants.Of(s); ok {
		return provider.ByAction(s), nil
	}
	bucket, _, _ := strings.Cut(s.Resource(), "/")
	action, known := d.cfg.Buckets[bucket].Actions[s.Action()]
	switch {
	case !known:
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	case action.Role == "roles/storage.objectViewer" || action.Role == "roles/storage.legacyObjectReader":
		return provider.Reading(), nil
	case action.Role == "roles/storage.objectCreator":
		return provider.Effect{Writes: provider.Yes, Reversible: provider.Yes, Sentence: "New objects can be deleted; none can be overwritten."}, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "Objects come back only if the bucket keeps versions."}, nil
}
