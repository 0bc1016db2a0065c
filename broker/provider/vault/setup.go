package vault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
)

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

// capabilities asks the server what the token may do at each path.
func capabilities(ctx context.Context, c *api.Client, paths []string) (map[string][]string, error) {
	s, err := c.Logical().WriteWithContext(ctx, "sys/capabilities-self", map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errors.New("vault: the server does not say what the broker may do")
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
