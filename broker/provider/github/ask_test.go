package github_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
	"github.com/ebb-broker/ebb/scopes"
)

// TestPermissionTable: the table has exactly GitHub's permissions and levels.
func TestPermissionTable(t *testing.T) {
	t.Parallel()
	theirs, ours := githubtest.Permissions(), github.Permissions()
	if len(theirs) != 55 {
		t.Errorf("GitHub's description has %d permissions", len(theirs))
	}
	if !maps.EqualFunc(theirs, ours, func(a, b []string) bool { return slices.Equal(a, b) }) {
		t.Errorf("GitHub has %v\nwe have  %v", theirs, ours)
	}
	for name := range ours {
		if _, err := scopes.New("gh", "acme/web/"+name, "read"); err != nil {
			t.Errorf("%s does not fit into a scope: %v", name, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for scope, why := range map[string]string{
		"gh:acme/*/contents:read":                              "a configured group",
		"gh:acme/**:read":                                      "write <owner>/<repository>/<permission>",
		"gh:acme/web/*:read":                                   "no such permission",
		"gh:acme/web/**:read":                                  "no such permission",
		"gh:acme/web/contents:*":                               "levels read, write",
		"gh:*/web/contents:read":                               "no installation",
		"gh:acme/@back/contents:read":                          "no such group",
		"gh:Acme/web/contents:read":                            "spelled as GitHub",
		"gh:other/web/contents:read":                           "no installation",
		"gh:acme/web:read":                                     "write <owner>/<repository>/<permission>",
		"gh:acme:read":                                         "write <owner>/<repository>/<permission>",
		"gh:acme/web/contents/x:read":                          "write <owner>/<repository>/<permission>",
		"gh:@acme/web/contents:read":                           "write <owner>/<repository>/<permission>",
		"gh:acme/web/contents:admin":                           "levels read, write",
		"gh:acme/web/contents:delete":                          "levels read, write",
		"gh:acme/web/workflows:read":                           "levels write",
		"gh:acme/web/nonsense:read":                            "no such permission",
		"gh:acme/web/Contents:read":                            "no such permission",
		"gh:acme/web/pages:read":                               "does not list",
		"gh:acme/web/metadata:write":                           "does not list",
		"gh:acme/web/members:read":                             "@<owner>/members",
		"gh:@acme/contents:read":                               "<owner>/<repository>/contents",
		"gh:acme/web/gpg_keys:read":                            "a user or an enterprise",
		"gh:@acme/gpg_keys:read":                               "a user or an enterprise",
		"gh:@acme/members:read":                                "a token without repositories",
		"gh:@acme/members:write gh:acme/web/metadata:read":     "does not list",
		"gh:acme/web/contents:read gh:octo/site/contents:read": "belongs to one owner",
		"gh:@octo/members:read gh:acme/web/contents:read":      "belongs to one owner",
		"gh:acme/web/contents:read gh:acme/api/issues:read":    "the same permissions",
		"gh:acme/web/contents:write gh:acme/api/contents:read": "the same permissions",
		"gh:acme/@front/contents:read gh:acme/web/issues:read": "the same permissions",
		"gh:acme/w+b/contents:read":                            "cannot have this name",
		"gh:octo/**:read":                                      "write <owner>/<repository>/<permission>",

		"gh:acme/web/refs:update":                                        "no such permission",
		"gh:acme/web/refs/heads:update":                                  "name a branch",
		"gh:acme/web/refs/*:update":                                      "name a branch",
		"gh:acme/web/refs/heads/main:write":                              "create, update, force and delete",
		"gh:acme/web/refs/heads/main:read":                               "create, update, force and delete",
		"gh:acme/web/branches/heads/main:update":                         "write <owner>/<repository>/<permission>",
		"gh:acme/*/refs/heads/main:update":                               "a configured group",
		"gh:acme/@back/refs/heads/main:update":                           "no such group",
		"gh:@acme/web/refs/heads/main:update":                            "write <owner>/<repository>/<permission>",
		"gh:other/web/refs/heads/main:update":                            "no installation",
		"gh:acme/web/refs/heads/main:update gh:acme/api/contents:read":   "the same permissions",
		"gh:acme/web/refs/heads/main:update gh:octo/site/contents:write": "belongs to one owner",
	} {
		s, err := scopes.ParseSet(scope)
		if err != nil {
			t.Errorf("%s: %v", scope, err)
			continue
		}
		err = r.Check(s)
		if !errors.Is(err, provider.ErrUnsupported) || !strings.Contains(err.Error(), why) {
			t.Errorf("Check(%s) = %v, want %q", scope, err, why)
		}
		g := r.grant(readWeb)
		g.Scopes = s
		if _, err := r.Mint(t.Context(), g); err == nil {
			t.Errorf("%s was minted", scope)
		}
	}
	if n := len(r.hub.Calls()); n != 0 {
		t.Errorf("GitHub was asked %d times", n)
	}
	if err := r.Check(scopes.MustParseSet("gh:octo/*/contents:read")); err != nil {
		t.Errorf("a pattern that is a group: %v", err)
	}
}

func TestTooManyRepositories(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *github.Config) {
		for i := range 600 {
			name := fmt.Sprintf("acme/@g%d", i/300)
			c.Groups[name] = append(c.Groups[name], fmt.Sprintf("r%d", i))
		}
	})
	if err := r.Check(scopes.MustParseSet("gh:acme/@g0/contents:read")); err != nil {
		t.Error(err)
	}
	if err := r.Check(scopes.MustParseSet("gh:acme/@g0/contents:read gh:acme/@g1/contents:read")); !errors.Is(err, provider.ErrUnsupported) {
		t.Errorf("600 repositories: %v", err)
	}
}
