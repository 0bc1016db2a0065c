package static

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

// Config is the config part of a provider of this kind.
type Config struct {
	// Secret is its name in the secret store (`ebb secrets put`); or Vault says where it is. None is
	// needed where there is a ClientCertificate.
	Secret string `json:"secret,omitempty"`
	Vault  *KV    `json:"vault,omitempty"`
	// Hosts are those that may get the secret, exactly: "api.example.com", or
	// "api.example.com:8443". Only over https.
	Hosts []string `json:"hosts"`
	// Inject is where in a request it goes.
	Inject Place `json:"inject,omitzero"`
	// ClientCertificate is shown to Hosts when ebb connects to them; nil = none is.
	ClientCertificate *Kept `json:"client_certificate,omitempty"`
	// Secret values of answers, by name; nil = provider.CommonlyDisclosed, {} = none.
	Disclosed *provider.Disclosed `json:"disclosed,omitempty"`
	// SealResponse are routes whose answers make credentials that stay in ebb, and are added in the
	// place of Secret to the requests that they are for; none is named twice. Host is one of Hosts,
	// Use names scopes of Grants. Secret is added to none of the requests of Use.
	SealResponse []provider.SealRoute `json:"seal_response,omitempty"`
	// Grants maps the resource of a scope to its actions, and those to requests:
	// {charges: {read: {methods: [GET], paths: ["/v1/charges", "/v1/charges/**"]}}}.
	Grants provider.Grants[stricturl.Rule] `json:"grants"`
}

// Kept says where the PEM of a client certificate, its chain and its private key is: the name of
// one secret in the secret store, or Vault.
type Kept struct {
	Secret string `json:"secret,omitempty"`
	Vault  *KV    `json:"vault,omitempty"`
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
	switch held := (Kept{c.Secret, c.Vault}); {
	case held != (Kept{}) || c.ClientCertificate == nil:
		held.check("", bad)
		c.Inject.check(bad)
	case c.Inject != (Place{}):
		bad("inject: there is no secret or vault to take from what is put there")
	}
	if c.ClientCertificate != nil {
		c.ClientCertificate.check("client_certificate.", bad)
	}
	if len(c.Hosts) == 0 || len(c.Hosts) > maxHosts {
		bad("hosts: name 1 to %d", maxHosts)
	}
	for _, h := range c.Hosts {
		if !stricturl.CheckHost(h) {
			bad("hosts: %q is not the full name of a host in lower case, like api.example.com or api.example.com:8443", h)
		}
	}
	c.Disclosed.Check("disclosed", bad)
	if c.Disclosed == nil {
		c.Disclosed = provider.CommonlyDisclosed()
	}
	if len(c.Grants) == 0 {
		bad("grants: name at least one resource, its actions and their requests")
	}
	c.Grants.Check(name, bad, func(at string, r stricturl.Rule) { r.Check(at, bad) })
	return errors.Join(errs...)
}

// check calls bad for each problem of k; at is the prefix of its configuration keys.
func (k Kept) check(at string, bad func(format string, a ...any)) {
	switch {
	case (k.Secret == "") == (k.Vault == nil):
		bad("%ssecret, or %[1]svault: name where the secret is, once", at)
	case k.Vault == nil && !secretstore.ValidName(k.Secret):
		bad("%ssecret: %q is not a valid name of a stored secret: use a lower-case letter, then up to 63 of a-z 0-9 . _ -", at, k.Secret)
	case k.Vault != nil:
		if k.Vault.Mount == "" {
			k.Vault.Mount = "secret"
		}
		if !vaultapi.ValidPath(k.Vault.Mount) || !vaultapi.ValidPath(k.Vault.Path) {
			bad("%svault: mount %q and path %q must be paths", at, k.Vault.Mount, k.Vault.Path)
		}
		if !fieldForm.MatchString(k.Vault.Field) {
			bad("%svault.field: name the field that holds the secret", at)
		}
	}
}
