package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

// localPath is the path of the default provider's resource, below the issuer.
const localPath = "/local"

// localPrincipal is a principal of a machine without configured principals, and the file of its key in the data directory.
type localPrincipal struct {
	file string
	broker.Principal
}

// locals returns the principals of a machine without configured ones: a runner and operator; an approver, because a person
// cannot approve a request of their own task; and, for the default provider, a resource server. The owner of the data
// directory can read all key files and so is all three. The resource server may only follow revocations of tokens of the
// default provider and introspect them: its key is for programs.
func locals(c config.Config, issuer string) []localPrincipal {
	all := []localPrincipal{
		{operatorKey, broker.Principal{ID: "local-operator", Roles: []broker.Role{broker.RoleRunner, broker.RoleOperator, broker.RoleAuditor}}},
		{approverKey, broker.Principal{ID: "local-approver", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}},
	}
	if len(c.Providers) == 0 {
		all = append(all, localPrincipal{resourceKey, broker.Principal{
			ID: "local-resource-server", Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{issuer + localPath},
		}})
	}
	return all
}

// localPrincipals returns the local principals with their keys, which it creates once.
func localPrincipals(c config.Config, issuer string) ([]broker.PrincipalConfig, error) {
	var out []broker.PrincipalConfig
	for _, l := range locals(c, issuer) {
		key, err := localKey(filepath.Join(c.DataDir, l.file), l.ID)
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

// replaced are the ids of the local operator and approver if configured principals replace them: commands on this machine
// then need --key.
func replaced(c config.Config) (ids []string) {
	if len(c.Principals) == 0 {
		return nil
	}
	for _, l := range locals(c, cmp.Or(c.PublicURL, defaultURL))[:2] {
		if !slices.ContainsFunc(c.Principals, func(p config.Principal) bool { return p.ID == l.ID }) {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// keepLocal returns the lines of the configuration that keep the replaced local principals, and the command that makes a
// missing key.
func keepLocal(c config.Config) string {
	var text strings.Builder
	ids := replaced(c)
	for _, l := range locals(c, cmp.Or(c.PublicURL, defaultURL)) {
		if !slices.Contains(ids, l.ID) {
			continue
		}
		path := filepath.Join(c.DataDir, l.file)
		key := "PUBLIC-JWK # as printed by: ebb keys new " + path + " --client-id " + l.ID
		if f, err := keyfile.Read(path); err == nil {
			if jwk, err := keyfile.PublicJWK(f.Key); err == nil {
				key = string(jwk)
			}
		}
		roles := make([]string, len(l.Roles))
		for i, r := range l.Roles {
			roles[i] = string(r)
		}
		fmt.Fprintf(&text, "  - id: %s\n    roles: [%s]\n", l.ID, strings.Join(roles, ", "))
		if len(l.Groups) > 0 {
			fmt.Fprintf(&text, "    groups: [%s]\n", strings.Join(l.Groups, ", "))
		}
		fmt.Fprintf(&text, "    keys:\n      - %s\n", key)
	}
	return text.String()
}
