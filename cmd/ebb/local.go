package main

import (
	"errors"
	"io/fs"
	"path/filepath"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/scopes"
	"ebb/web/client"
)

// localPrincipals are the two people of a machine without a configuration: one
// who runs and operates, and another who approves, because nobody approves
// their own task's request. Whoever can read their key files, which is the
// owner of the data directory, is both. Their keys are made once.
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
		return jose.Key{}, fail("the local key cannot be used: "+err.Error(), "check the file, or remove it so that `ebb serve` makes another")
	}
	return publicKey(f.Key)
}

// principals are the configured ones in the broker's shape, or the local ones
// when nobody is configured.
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

// highRiskQuorum is how many people must agree to what is of high risk when the
// configuration does not say: two, but never more than there are for each request. On
// a machine with one approver nobody could approve anything of the kind.
func highRiskQuorum(people []broker.PrincipalConfig, many bool) int {
	if many { // a provider of people knows approvers, nobody here how many
		return 2
	}
	n, runs := 0, 0 // approvers; 1 when one of them may be who runs the task, and then decides nothing of it
	for _, p := range people {
		if !p.Has(broker.RoleApprover) {
			continue
		}
		if n++; p.Match != nil { // everybody whom the attestor knows by it
			n++
		}
		if p.Has(broker.RoleRunner) {
			runs = 1
		}
	}
	return min(max(n-runs, 1), 2)
}
