package github

import (
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// undone holds the permissions whose effects are known to be reversible or irreversible. For
// others the answer is unknown.
var undone = map[string]provider.Effect{
	"contents":           {Writes: provider.Yes, Reversible: provider.Yes, Sentence: "Pushes can be reverted; what leaked by them cannot."},
	"statuses":           {Writes: provider.Yes, Reversible: provider.Yes, Sentence: "A status can be set again."},
	"checks":             {Writes: provider.Yes, Reversible: provider.Yes, Sentence: "A check can be run again."},
	"issues":             {Writes: provider.Yes, Reversible: provider.No, Sentence: "Edits can be undone; deleted comments cannot."},
	"pull_requests":      {Writes: provider.Yes, Reversible: provider.No, Sentence: "Edits can be undone; deleted comments cannot."},
	"workflows":          {Writes: provider.Yes, Reversible: provider.No, Sentence: "Workflows run code, which cannot be undone."},
	"actions":            {Writes: provider.Yes, Reversible: provider.No, Sentence: "Workflows run code, which cannot be undone."},
	"deployments":        {Writes: provider.Yes, Reversible: provider.No, Sentence: "What was deployed has run."},
	"administration":     {Writes: provider.Yes, Reversible: provider.No, Sentence: "A repository can be deleted with it."},
	"secrets":            {Writes: provider.Yes, Reversible: provider.No, Sentence: "Replaced secrets do not come back."},
	"dependabot_secrets": {Writes: provider.Yes, Reversible: provider.No, Sentence: "Replaced secrets do not come back."},
	"packages":           {Writes: provider.Yes, Reversible: provider.No, Sentence: "What was published may be in use already."},
}

// Describe implements provider.Describer.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	one, err := scopes.NewSet(s)
	if err != nil {
		return provider.Effect{}, err
	}
	if _, err := d.cfg.read(one); err != nil {
		return provider.Effect{}, err
	}
	if s.Action() == "read" {
		return provider.Reading(), nil
	}
	at := s.Segments()
	if e, known := undone[at[len(at)-1]]; known {
		return e, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "ebb does not know whether this can be undone."}, nil
}
