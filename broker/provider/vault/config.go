package vault

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

// Config is the config part of a provider of this kind.
type Config struct {
	vaultapi.Config
	// TokenRole is the role of auth/token that the leases' tokens are made by; it
	// decides that they are orphans and which policies they can have at most.
	TokenRole string `json:"token_role"`
	// TTLOnly: what the engines make works until its own end, though its lease has
	// been revoked at the server (pki's certificates, aws's sessions).
	TTLOnly bool `json:"ttl_only,omitempty"`
	// Grants maps the resource of a scope to its actions:
	// {orders: {read: {path: database/creds/orders-ro, policies: [orders-ro]}}}.
	Grants provider.Grants[Path] `json:"grants"`
}

// Path is where a credential is made.
type Path struct {
	Path     string            `json:"path"`             // database/creds/orders-ro
	Policies []string          `json:"policies"`         // of the lease's token: nothing but reading Path
	Write    bool              `json:"write,omitempty"`  // by PUT with Params, as pki/issue wants
	Params   map[string]string `json:"params,omitempty"` // fixed; nothing of a request gets in
	// MaxLifetime is how many seconds the engine's lease may be for when that is longer
	// than the lease of the broker, which takes it back before; 0 = no longer.
	MaxLifetime int `json:"max_lifetime,omitempty"`
}

func (p Path) maxLife() time.Duration { return time.Duration(p.MaxLifetime) * time.Second }

// maxSeconds bounds max_lifetime.
const maxSeconds = 24 * 60 * 60

var (
	roleForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
)

// check reports all problems at once; name is the provider's.
func (c Config) check(name string) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if !roleForm.MatchString(c.TokenRole) {
		bad("token_role: name the role of auth/token that makes the tokens of leases")
	}
	if len(c.Grants) == 0 {
		bad("grants: name at least one resource, its actions and their paths")
	}
	c.Grants.Check(name, bad, func(at string, p Path) {
		if !vaultapi.ValidPath(p.Path) {
			bad("%s.path: %q is not a path of an engine", at, p.Path)
		}
		if len(p.Policies) == 0 || slices.ContainsFunc(p.Policies, func(s string) bool { return !roleForm.MatchString(s) || s == "root" || s == "default" }) {
			bad("%s.policies: name the policies that may read the path, and neither root nor default", at)
		}
		if p.MaxLifetime < 0 || p.MaxLifetime > maxSeconds {
			bad("%s.max_lifetime: 1 to %d seconds", at, maxSeconds)
		}
		if len(p.Params) > 0 && !p.Write {
			bad("%s.params: they are sent only with write: true", at)
		}
	})
	return errors.Join(errs...)
}
