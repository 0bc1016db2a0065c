package github_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, format := range []string{githubtest.Opaque, githubtest.Stateless} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *github.Config) { c.TokenFormat = format })
			providertest.Run(t, providertest.Subject{
				Driver: r.Driver, Grant: func() provider.Grant { return r.grant(readWeb + " gh:acme/web/issues:write") }, Unsupported: "gh:acme/*/contents:read",
				Alive: func(ctx context.Context, c provider.Credential) (bool, error) { return r.alive(ctx, c.Token.Reveal()) },
			})
		})
	}
}

// TestMintAsksForExactlyThis: a mint request always contains ids and permissions, and exactly
// those of the scopes.
func TestMintAsksForExactlyThis(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]string{
		readWeb: `{"repository_ids":[1],"permissions":{"contents":"read"}}`,
		"gh:acme/web/contents:read gh:acme/web/contents:write":                            `{"repository_ids":[1],"permissions":{"contents":"write"}}`,
		"gh:acme/web/refs/heads/agent/**:create":                                          `{"repository_ids":[1],"permissions":{"contents":"write"}}`,
		"gh:acme/web/contents:read gh:acme/web/refs/heads/main:update":                    `{"repository_ids":[1],"permissions":{"contents":"write"}}`,
		"gh:acme/web/contents:write gh:acme/api/refs/heads/main:*":                        `{"repository_ids":[2,1],"permissions":{"contents":"write"}}`,
		"gh:acme/web/repository_projects:admin":                                           `{"repository_ids":[1],"permissions":{"repository_projects":"admin"}}`,
		"gh:acme/api/issues:write gh:acme/web/issues:write":                               `{"repository_ids":[2,1],"permissions":{"issues":"write"}}`,
		"gh:acme/@front/issues:write":                                                     `{"repository_ids":[2,1],"permissions":{"issues":"write"}}`,
		"gh:acme/@front/contents:read gh:acme/api/issues:read gh:acme/web/issues:read":    `{"repository_ids":[2,1],"permissions":{"contents":"read","issues":"read"}}`,
		"gh:@acme/members:read gh:acme/web/metadata:read":                                 `{"repository_ids":[1],"permissions":{"members":"read","metadata":"read"}}`,
		"gh:acme/web/contents:write gh:acme/web/workflows:write gh:acme/web/issues:write": `{"repository_ids":[1],"permissions":{"contents":"write","issues":"write","workflows":"write"}}`,
	} {
		for _, extra := range []bool{true, false} {
			r := newRig(t)
			r.hub.AddMetadata(extra)
			_, c := r.mint(t, scope)
			if got := r.mints(); len(got) != 1 || got[0] != want {
				t.Errorf("%s was asked for with %q, want %s", scope, got, want)
			}
			if c.Type != "Bearer" || !c.Handle.Equal(c.Token) || !c.DiesAt.Equal(r.clock.Now().Add(time.Hour)) {
				t.Errorf("%s: type %q, dies %s", scope, c.Type, c.DiesAt)
			}
		}
	}
}

func TestBothFormats(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hub, option string
		want        provider.Class
		long        bool
	}{
		"GitHub chooses opaque":    {githubtest.Opaque, "", "", false},
		"GitHub chooses stateless": {githubtest.Stateless, "", provider.ClassEventual, true},
		"opaque is asked for":      {githubtest.Stateless, "opaque", "", false},
		"stateless is asked for":   {githubtest.Opaque, "stateless", provider.ClassEventual, true},
	} {
		r := newRig(t, func(c *github.Config) { c.TokenFormat = tt.option })
		r.hub.Format(tt.hub, 40*time.Second)
		g, c := r.mint(t, readWeb)
		if c.Revocability.Class != tt.want || (len(c.Token.Reveal()) > 400) != tt.long {
			t.Errorf("%s: class %q and %d bytes", name, c.Revocability.Class, len(c.Token.Reveal()))
		}
		if alive, err := r.Probe(t.Context(), r.target(g, c.Handle)); !alive || err != nil {
			t.Errorf("%s: a new token probes as %v, %v", name, alive, err)
		}
		if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if alive, err := r.Probe(t.Context(), r.target(g, c.Handle)); alive != tt.long || err != nil {
			t.Errorf("%s: a revoked token probes as %v, %v", name, alive, err)
		}
		r.clock.Advance(40 * time.Second)
		if alive, err := r.Probe(t.Context(), r.target(g, c.Handle)); alive || err != nil {
			t.Errorf("%s: after its lag it probes as %v, %v", name, alive, err)
		}
	}
}

func TestTraits(t *testing.T) {
	t.Parallel()
	got := newRig(t, func(c *github.Config) { c.TokenFormat = "opaque" }).Traits()
	if got.Revocability.Class != provider.ClassInstant || !got.ThirdParty || got.Floor != time.Hour || got.Lasting {
		t.Errorf("%+v", got)
	}
	for _, format := range []string{"", "stateless"} {
		got = newRig(t, func(c *github.Config) { c.TokenFormat = format }).Traits()
		if got.Revocability != (provider.Revocability{Class: provider.ClassEventual, Bound: time.Hour}) {
			t.Errorf("%q: %+v", format, got)
		}
	}
}

// TestMintsSomethingElse: the driver revokes a token that differs from the request, and never
// returns it.
func TestMintsSomethingElse(t *testing.T) {
	t.Parallel()
	repo := func(id int, name string) map[string]any { return map[string]any{"id": id, "full_name": name} }
	for name, spoil := range map[string]func(map[string]any){
		"a level more":          func(b map[string]any) { b["permissions"] = map[string]string{"contents": "write"} },
		"a permission more":     func(b map[string]any) { b["permissions"] = map[string]string{"contents": "read", "issues": "read"} },
		"metadata:write":        func(b map[string]any) { b["permissions"] = map[string]string{"contents": "read", "metadata": "write"} },
		"a permission less":     func(b map[string]any) { b["permissions"] = map[string]string{} },
		"no permissions":        func(b map[string]any) { delete(b, "permissions") },
		"all repositories":      func(b map[string]any) { b["repository_selection"] = "all" },
		"no selection":          func(b map[string]any) { delete(b, "repository_selection") },
		"no repositories":       func(b map[string]any) { delete(b, "repositories") },
		"a repository more":     func(b map[string]any) { b["repositories"] = []any{repo(1, "acme/web"), repo(2, "acme/api")} },
		"another repository":    func(b map[string]any) { b["repositories"] = []any{repo(2, "acme/api")} },
		"another name":          func(b map[string]any) { b["repositories"] = []any{repo(1, "acme/shop")} },
		"another spelling":      func(b map[string]any) { b["repositories"] = []any{repo(1, "Acme/web")} },
		"another id":            func(b map[string]any) { b["repositories"] = []any{repo(2, "acme/web")} },
		"twice the same":        func(b map[string]any) { b["repositories"] = []any{repo(1, "acme/web"), repo(1, "acme/web")} },
		"members in other case": func(b map[string]any) { b["Permissions"] = b["permissions"]; delete(b, "permissions") },
		"permissions a list":    func(b map[string]any) { b["permissions"] = []string{"contents"} },
		"an id that is text":    func(b map[string]any) { b["repositories"] = []any{map[string]any{"id": "1", "full_name": "acme/web"}} },
		"no expiry":             func(b map[string]any) { delete(b, "expires_at") },
		"expiry is no date":     func(b map[string]any) { b["expires_at"] = "soon" },
		"expired":               func(b map[string]any) { b["expires_at"] = "2016-07-11T22:14:10Z" },
		"lives for years":       func(b map[string]any) { b["expires_at"] = "2099-01-01T00:00:00Z" },
	} {
		r := newRig(t)
		r.hub.Alter(spoil)
		c, err := r.Mint(t.Context(), r.grant(readWeb))
		if !errors.Is(err, provider.ErrRefused) || !c.Token.Empty() || r.hub.Living() != 0 {
			t.Errorf("%s: %v; %d tokens live", name, err, r.hub.Living())
		}
		if !strings.Contains(r.log.String(), "something else") {
			t.Errorf("%s: the log does not say so", name)
		}
		// Taking it back fails, too: then the broker owes it.
		r = newRig(t)
		r.hub.Alter(spoil)
		r.hub.Break(githubtest.Fault{Method: "DELETE", Path: "/installation/token", Kind: githubtest.Fail, Times: 1})
		g := r.grant(readWeb)
		c, err = r.Mint(t.Context(), g)
		if err == nil || errors.Is(err, provider.ErrRefused) || !c.Token.Empty() || c.Handle.Empty() {
			t.Errorf("%s, and taking it back fails: %v", name, err)
		}
		if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil || r.hub.Living() != 0 {
			t.Errorf("%s: the pending end: %v; %d tokens live", name, err, r.hub.Living())
		}
	}
}

// TestBusyWhileTakingBack: a rate limit during the revocation of a wrong token does not mean
// that no token was made.
func TestBusyWhileTakingBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hub.Budget(1, r.clock.Now().Add(time.Minute))
	r.hub.Alter(func(b map[string]any) { b["repository_selection"] = "all" })
	c, err := r.Mint(t.Context(), r.grant(readWeb))
	busy := (*provider.BusyError)(nil)
	if err == nil || errors.As(err, &busy) || errors.Is(err, provider.ErrRefused) || c.Handle.Empty() {
		t.Errorf("%v", err)
	}
	r = newRig(t)
	r.hub.Budget(1, r.clock.Now().Add(time.Minute))
	c, err = r.Mint(t.Context(), r.grant("gh:acme/docs/contents:read"))
	if err == nil || errors.As(err, &busy) || errors.Is(err, provider.ErrRefused) || c.Handle.Empty() {
		t.Errorf("in a look-up: %v", err)
	}
}

// TestClocksDiffer: when the clocks differ by less than a minute, the expiries that the driver
// reports hold by both clocks.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-50 * time.Second, 50 * time.Second} {
		r := newRig(t)
		r.hub.Skew(skew)
		g := r.grant(readWeb)
		g.ExpiresAt = g.IssuedAt.Add(2 * time.Hour)
		c, err := r.Mint(t.Context(), g)
		if err != nil {
			t.Fatalf("%s: %v", skew, err)
		}
		hour := r.clock.Now().Add(time.Hour)
		if c.ExpiresAt.After(hour) || c.DiesAt.Before(hour) || c.DiesAt.Sub(hour) > skew.Abs() {
			t.Errorf("%s: expires %s, dies %s, and an hour is %s", skew, c.ExpiresAt, c.DiesAt, hour)
		}
	}
	for _, skew := range []time.Duration{-3 * time.Minute, 11 * time.Minute} {
		r := newRig(t)
		r.hub.Skew(skew)
		_, err := r.Mint(t.Context(), r.grant(readWeb))
		if !errors.Is(err, provider.ErrRefused) || !strings.Contains(fmt.Sprint(err), "clock off by") {
			t.Errorf("%s: %v", skew, err)
		}
	}
}
