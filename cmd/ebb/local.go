package main

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
)

// localPrincipals returns the two people of a machine without a configuration:
// a runner and operator, and an approver, because a person cannot approve a
// request of their own task. The owner of the data directory can read both key
// files and so is both. The keys are created once.
func localPrincipals(dir string) ([]broker.PrincipalConfig, error) {
	var out []broker.PrincipalConfig
	for _, l := range []struct {
		file string
		broker.Principal
	}{
		{operatorKey, broker.Principal{ID: "local-operator", Roles: []broker.Role{broker.RoleRunner, broker.RoleOperator, broker.RoleAuditor}}},
		{approverKey, broker.Principal{ID: "local-approver", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}},
	} {
		key, err := localKey(filepath.Join(dir, l.file), l.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, broker.PrincipalConfig{Principal: l.Principal, Keys: []jose.Key{key}})
	}
	return out, nil
}

func localKey(path, id string) (jose.Key, error) {
	f, err := keyfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.Key, err = client.NewKey(jose.ES256)
		if err == nil {
			err = keyfile.Write(path, keyfile.File{ClientID: id, Key: f.Key})
		}
	}
	if err != nil {
		return jose.Key{}, fail("read the local key: "+err.Error(), "check the file, or remove it so that `ebb serve` creates a new one")
	}
	return keyfile.Public(f.Key)
}

// principals returns the configured principals for the broker, or the local
// ones if none is configured.
func principals(s settings) ([]broker.PrincipalConfig, error) {
	if len(s.Config.Principals) == 0 && len(s.Principals) == 0 {
		return localPrincipals(s.DataDir)
	}
	out := s.Principals
	for _, p := range s.Config.Principals {
		pc := broker.PrincipalConfig{
			Principal: broker.Principal{ID: p.ID, Roles: p.Roles, Groups: p.Groups, Audiences: p.Audiences}, Keys: p.Keys,
		}
		if !p.Scopes.Empty() {
			pc.Bounds = []scopes.Set{p.Scopes}
		}
		if p.Attestor != "" {
			pc.Match = &broker.Match{Attestor: p.Attestor, Selectors: p.Selectors}
		}
		out = append(out, pc)
	}
	return out, nil
}

// highRiskQuorum is the default number of approvals of a request of
// high risk: two, or one if each request has only one possible approver. Else a
// machine with one approver could approve no request of high risk.
func highRiskQuorum(people []broker.PrincipalConfig, many bool) int {
	if many { // an identity provider authenticates approvers, so their number is unknown
		return 2
	}
	n, runs := 0, 0 // approvers; 1 if one of them may run the task, and then cannot approve its requests
	for _, p := range people {
		if !p.Has(broker.RoleApprover) {
			continue
		}
		if n++; p.Match != nil { // every identity that matches
			n++
		}
		if p.Has(broker.RoleRunner) {
			runs = 1
		}
	}
	return min(max(n-runs, 1), 2)
}
