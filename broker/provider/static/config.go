package static

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/egress/content/fields"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

// Config is the provider's part of the configuration.
type Config struct {
	// Secret is the name of the secret in the secret store (`ebb secrets put`); Vault is its
	// location in Vault. Neither is required with a ClientCertificate.
	Secret string `json:"secret,omitempty"`
	Vault  *KV    `json:"vault,omitempty"`
	// Hosts are the only hosts that may receive the secret: "api.example.com", or
	// "api.example.com:8443". Only https is used.
	Hosts []string `json:"hosts"`
	// Inject is the part of a request that the secret is added to.
	Inject Place `json:"inject,omitzero"`
	// ClientCertificate is used on connections to Hosts; nil means none.
	ClientCertificate *Kept `json:"client_certificate,omitempty"`
	// Disclosed are the names of secret values in responses; nil means
	// provider.CommonlyDisclosed, {} none.
	Disclosed *provider.Disclosed `json:"disclosed,omitempty"`
	// SealResponse are routes whose responses make credentials that stay in ebb; each route
	// occurs once. These credentials are added, instead of Secret, to requests of the scopes
	// in Use. Host is one of Hosts, and Use names scopes of Grants. Secret is added to no
	// request of Use.
	SealResponse []provider.SealRoute `json:"seal_response,omitempty"`
	// Grants maps the resource of a scope to its actions, and those to requests:
	// {charges: {read: {methods: [GET], paths: ["/v1/charges", "/v1/charges/**"]}}}.
	Grants provider.Grants[Rule] `json:"grants"`
}

// Rule selects the requests of a scope.
type Rule struct {
	stricturl.Rule
	// Body lists the fields that the body of a request may have; nil = ebb does not read it.
	Body *fields.Rule `json:"body,omitempty"`
}

// named reports whether scopes of the rule name objects.
func (r Rule) named() bool { return r.Body != nil && r.Body.Named() }

// check calls bad for each problem of the rule; at is its place in the configuration.
func (r Rule) check(at string, bad func(format string, a ...any)) {
	r.Rule.Check(at, bad)
	if r.Body == nil {
		return
	}
	r.Body.Check(at+".body", bad)
	if slices.ContainsFunc(r.Methods, func(m string) bool { return m != http.MethodPost && m != http.MethodPut && m != http.MethodPatch }) {
		bad("%s.body: only requests with the methods POST, PUT and PATCH have a body that ebb can read: give other methods an action of their own", at)
	}
	if r.WebSocket {
		bad("%s.body: a WebSocket has no such body", at)
	}
}

// Kept is the location of the PEM of a client certificate with its chain and private key:
// the name of one secret in the secret store, or Vault.
type Kept struct {
	Secret string `json:"secret,omitempty"`
	Vault  *KV    `json:"vault,omitempty"`
}

// KV is a secret in version 2 of Vault's KV engine.
type KV struct {
	vaultapi.Config
	Mount string `json:"mount,omitempty"` // "" means secret
	Path  string `json:"path"`
	Field string `json:"field"`
}

const maxHosts = 16

var fieldForm = lazyregexp.New(`^[A-Za-z0-9_.-]{1,128}$`)

// check returns all problems joined; name is the provider's.
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
	c.Grants.Check(name, bad, func(at string, r Rule) { r.check(at, bad) })
	c.checkNames(bad)
	return errors.Join(errs...)
}

// checkNames calls bad for each scope that would be the one of a rule, and also name an object of
// another rule.
func (c *Config) checkNames(bad func(string, ...any)) {
	resources := slices.Sorted(maps.Keys(c.Grants))
	for _, resource := range resources {
		for _, action := range slices.Sorted(maps.Keys(c.Grants[resource])) {
			for _, other := range resources {
				if _, both := c.Grants[other][action]; both && c.Grants[resource][action].named() && strings.HasPrefix(other, resource+"/") {
					bad("grants.%s.%s: scopes of grants.%s.%[2]s name objects there: choose a resource that is not below it, or another action", other, action, resource)
				}
			}
		}
	}
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

// Place is the part of a request that the secret is added to. Exactly one of Header, Basic
// and Query is set. A value from the sandbox is replaced.
type Place struct {
	Header string `json:"header,omitempty"` // such as Authorization or X-Api-Key
	Prefix string `json:"prefix,omitempty"` // prefix of the header's value, such as "Bearer "
	Basic  *Basic `json:"basic,omitempty"`  // Authorization: Basic (RFC 7617)
	Query  string `json:"query,omitempty"`  // name of a parameter; servers often log these
}

// Basic is a user and a password, one of which is the secret.
type Basic struct {
	User     string `json:"user,omitempty"`     // when set, the secret is the password
	Password string `json:"password,omitempty"` // without User, the secret is the user, and this is the password, which may be empty
}

// maxPair is the maximum length of the other part of Basic.
const maxPair = 256

var queryForm = lazyregexp.New(`^[A-Za-z0-9_.~-]{1,64}$`)

func (p Place) check(bad func(string, ...any)) {
	set := 0
	for _, is := range []bool{p.Header != "", p.Basic != nil, p.Query != ""} {
		if is {
			set++
		}
	}
	if p.Header != "" {
		if err := provider.CheckHeader(p.Header, p.Prefix); err != nil {
			bad("inject: %w", err)
		}
	}
	switch {
	case set != 1:
		bad("inject: say header, basic or query, and only one")
	case p.Header == "" && p.Prefix != "":
		bad("inject.prefix: it is what a header's value begins with: there is no header")
	case p.Basic != nil && (strings.Contains(p.Basic.User, ":") || !plain(p.Basic.User) || !plain(p.Basic.Password)):
		bad("inject.basic: a user holds no colon, and neither part control characters")
	case p.Basic != nil && p.Basic.User != "" && p.Basic.Password != "":
		bad("inject.basic: the secret is the password of user, or the user of password: leave one out")
	case p.Basic != nil && len(p.Basic.User)+len(p.Basic.Password) > maxPair:
		bad("inject.basic: the part beside the secret has at most %d bytes", maxPair)
	case p.Query != "" && !queryForm.MatchString(p.Query):
		bad("inject.query: %q is not the name of a parameter", p.Query)
	}
}

// plain reports whether s has no control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// errUnfit contains no part of the secret.
var errUnfit = errors.New("static: the secret cannot be added to requests: it does not have 8 to 8192 bytes, or contains line ends or other characters that are not allowed there; put it again without them")

// fits reports, as an error, that a secret cannot be added unchanged: for example, a line
// end in a header would begin another header.
func (p Place) fits(s secret.Secret) error {
	text := s.Reveal()
	ok := provider.CanInject(s) && plain(text)
	switch {
	case p.Header != "":
		ok = ok && strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool { return r > '~' })
	case p.Basic != nil && p.Basic.User == "":
		ok = ok && !strings.Contains(text, ":")
	}
	if !ok {
		return errUnfit
	}
	return nil
}

// put adds the secret, which fits has accepted, to a request.
func (p Place) put(r *http.Request, s secret.Secret) {
	text := s.Reveal()
	if p.Query != "" {
		r.URL.RawQuery = withParameter(r.URL.RawQuery, p.Query, text)
		return
	}
	name, value := p.Header, p.Prefix+text
	if p.Basic != nil {
		user, password := p.Basic.User, text
		if user == "" {
			user, password = text, p.Basic.Password
		}
		name, value = "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	provider.SetHeader(r, name, value)
}

// withParameter removes a parameter from a valid query and adds it with a new value.
func withParameter(query, name, value string) string {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if k, err := url.QueryUnescape(key); pair != "" && err == nil && k != name {
			kept = append(kept, pair)
		}
	}
	return strings.Join(append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}
