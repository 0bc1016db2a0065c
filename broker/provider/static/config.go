package static

import (
	"errors"
	"fmt"
	"regexp"

	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/broker/safe"
	"ebb/broker/vaultapi"
)

// Config is the config part of a provider of this kind.
type Config struct {
	// Secret is its name in ebb's safe (`ebb secrets put`); or Vault says where it is.
	Secret string `json:"secret,omitempty"`
	Vault  *KV    `json:"vault,omitempty"`
	// Hosts are those that may get the secret, exactly: "api.example.com", or
	// "api.example.com:8443". Only over https.
	Hosts []string `json:"hosts"`
	// Inject is where in a request it goes.
	Inject Place `json:"inject"`
	// Secret values of answers, by name; nil = provider.CommonlyDisclosed, {} = none.
	Disclosed *provider.Disclosed `json:"disclosed,omitempty"`
	// Grants maps the resource of a scope to its actions, and those to requests:
	// {charges: {read: {methods: [GET], paths: ["/v1/charges", "/v1/charges/**"]}}}.
	Grants provider.Grants[exact.Rule] `json:"grants"`
}

// KV is a secret in version 2 of Vault's KV engine.
type KV struct {
	vaultapi.Config
	Mount string `json:"mount,omitempty"` // "" = secret
	Path  string `json:"path"`
	Field string `json:"field"`
}

const maxHosts = 16

var fieldForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// check reports all problems at once; name is the provider's.
func (c *Config) check(name string) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch {
	case (c.Secret == "") == (c.Vault == nil):
		bad("secret, or vault: name where the secret is, once")
	case c.Vault == nil && !safe.ValidName(c.Secret):
		bad("secret: %q is not the name of a secret in the safe", c.Secret)
	case c.Vault != nil:
		if c.Vault.Mount == "" {
			c.Vault.Mount = "secret"
		}
		if !vaultapi.ValidPath(c.Vault.Mount) || !vaultapi.ValidPath(c.Vault.Path) {
			bad("vault: mount %q and path %q must be paths", c.Vault.Mount, c.Vault.Path)
		}
		if !fieldForm.MatchString(c.Vault.Field) {
			bad("vault.field: name the field that holds the secret")
		}
	}
	if len(c.Hosts) == 0 || len(c.Hosts) > maxHosts {
		bad("hosts: name 1 to %d", maxHosts)
	}
	for _, h := range c.Hosts {
		if !exact.CheckHost(h) {
			bad("hosts: %q is not the full name of a host in lower case, like api.example.com or api.example.com:8443", h)
		}
	}
	c.Inject.check(bad)
	c.Disclosed.Check("disclosed", bad)
	if c.Disclosed == nil {
		c.Disclosed = provider.CommonlyDisclosed()
	}
	if len(c.Grants) == 0 {
		bad("grants: name at least one resource, its actions and their requests")
	}
	c.Grants.Check(name, bad, func(at string, r exact.Rule) { r.Check(at, bad) })
	return errors.Join(errs...)
}
