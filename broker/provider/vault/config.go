package vault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

// Config is the provider's part of the configuration.
type Config struct {
	vaultapi.Config
	// TokenRole is the role of auth/token for the tokens of leases. The role makes them
	// orphans and limits their policies.
	TokenRole string `json:"token_role"`
	// TTLOnly means that the credentials of the engines remain valid until their own expiry,
	// although their lease is revoked at the server (pki's certificates, aws's sessions).
	TTLOnly bool `json:"ttl_only,omitempty"`
	// Grants maps the resource of a scope to its actions:
	// {orders: {read: {path: database/creds/orders-ro, policies: [orders-ro]}}}.
	Grants provider.Grants[Path] `json:"grants"`
}

// Path is the source of a credential.
type Path struct {
	Path     string            `json:"path"`             // database/creds/orders-ro
	Policies []string          `json:"policies"`         // of the lease's token; they must allow only reading Path
	Write    bool              `json:"write,omitempty"`  // use PUT with Params, as pki/issue requires
	Params   map[string]string `json:"params,omitempty"` // fixed; nothing from a request is added
	// MaxLifetime is the maximum lifetime of the engine's lease in seconds, when that is
	// longer than the lease of the broker, which revokes it before; 0 allows no longer
	// lifetime.
	MaxLifetime int `json:"max_lifetime,omitempty"`
}

func (p Path) maxLife() time.Duration { return time.Duration(p.MaxLifetime) * time.Second }

// maxSeconds bounds max_lifetime.
const maxSeconds = 24 * 60 * 60

var (
	roleForm = lazyregexp.New(`^[A-Za-z0-9_.-]{1,128}$`)
)

// check returns all problems joined; name is the provider's.
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

// CheckSetup implements provider.Checker.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	var out []provider.Finding
	fatal := func(what, remedy string) {
		out = append(out, provider.Finding{Fatal: true, What: what, Remedy: remedy})
	}
	paths := []string{"sys/leases/revoke", "sys/leases/lookup", "auth/token/revoke-accessor", "auth/token/lookup-accessor", "auth/token/create/" + d.cfg.TokenRole}
	var can map[string][]string
	err := d.client.Do(ctx, func(ctx context.Context, c *api.Client) (err error) {
		can, err = capabilities(ctx, c, append(paths, d.paths()...))
		return err
	})
	if err != nil {
		fatal("The server cannot be reached, is sealed, or refuses the broker's login.", "Check address, ca_file, namespace and auth; the broker's log has the cause.")
		return out
	}
	for _, p := range paths {
		if !slices.ContainsFunc(can[p], func(s string) bool { return s == "update" || s == "create" || s == "root" }) {
			fatal("The broker may not write "+p+".", fmt.Sprintf("path %q { capabilities = [\"create\", \"update\"] }", p))
		}
	}
	for _, p := range d.paths() {
		if len(can[p]) > 0 && !slices.Equal(can[p], []string{"deny"}) {
			out = append(out, provider.Finding{What: "The broker itself may use " + p + ", which only the tokens of leases need.",
				Remedy: "Take " + strings.Join(can[p], ", ") + " on it out of the broker's policies."})
		}
	}
	return out
}

func (d *Driver) paths() []string {
	set := map[string]bool{}
	for _, actions := range d.cfg.Grants {
		for _, p := range actions {
			set[p.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// capabilities returns the token's capabilities at each path.
func capabilities(ctx context.Context, c *api.Client, paths []string) (map[string][]string, error) {
	s, err := c.Logical().WriteWithContext(ctx, "sys/capabilities-self", map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errors.New("vault: the response of the server has no capabilities of the broker's token")
	}
	out := map[string][]string{}
	for _, p := range paths {
		list, _ := s.Data[p].([]any)
		for _, v := range list {
			if text, ok := v.(string); ok {
				out[p] = append(out[p], text)
			}
		}
	}
	return out, nil
}
