package main

import (
	"maps"
	"slices"

	jwt "github.com/hashicorp/vault-plugin-auth-jwt"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/credential/cert"
	"github.com/hashicorp/vault/builtin/credential/userpass"
	"github.com/hashicorp/vault/builtin/logical/aws"
	"github.com/hashicorp/vault/builtin/logical/database"
	"github.com/hashicorp/vault/builtin/logical/pki"
	"github.com/hashicorp/vault/builtin/logical/ssh"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/plugins/database/postgresql"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
)

// registry is the whole list of engines, auth methods and database plugins of this build.
type registry map[consts.PluginType]map[string]func() (any, error)

func factory(f logical.Factory) func() (any, error) { return func() (any, error) { return f, nil } }

var builtins = registry{
	consts.PluginTypeSecrets: {
		"aws": factory(aws.Factory), "database": factory(database.Factory), "kv": factory(kv.Factory),
		"pki": factory(pki.Factory), "ssh": factory(ssh.Factory), "transit": factory(transit.Factory),
	},
	consts.PluginTypeCredential: {
		"approle": factory(approle.Factory), "cert": factory(cert.Factory), "jwt": factory(jwt.Factory),
		"oidc": factory(jwt.Factory), "userpass": factory(userpass.Factory),
	},
	consts.PluginTypeDatabase: {"postgresql-database-plugin": postgresql.New},
}

func (r registry) Get(name string, t consts.PluginType) (func() (any, error), bool) {
	f, ok := r[t][name]
	return f, ok
}

func (r registry) Contains(name string, t consts.PluginType) bool { _, ok := r[t][name]; return ok }

func (r registry) Keys(t consts.PluginType) []string { return slices.Sorted(maps.Keys(r[t])) }

func (r registry) DeprecationStatus(name string, t consts.PluginType) (consts.DeprecationStatus, bool) {
	if !r.Contains(name, t) {
		return consts.Unknown, false
	}
	return consts.Supported, true
}

func (r registry) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }
