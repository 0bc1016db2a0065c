package github_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
)

const readDocs = "gh:acme/docs/contents:read"

// TestLookUp: the driver looks up an unpinned name once, with a token that can only read
// metadata. It revokes that token before it requests the real one.
func TestLookUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mint(t, readDocs)
	r.mint(t, "gh:acme/docs/contents:read gh:acme/web/contents:read")
	want := []string{
		`{"repositories":["docs"],"permissions":{"metadata":"read"}}`,
		`{"repository_ids":[3],"permissions":{"contents":"read"}}`,
		`{"repository_ids":[3,1],"permissions":{"contents":"read"}}`,
	}
	if got := r.mints(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if n := r.hub.Living(); n != 2 {
		t.Errorf("%d tokens live: that of the look-up must not", n)
	}
}

func TestLookUpRefuses(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]string{
		"unknown":          "gh:acme/nope/contents:read",
		"another spelling": "gh:acme/Docs/contents:read",
		"of another owner": "gh:acme/site/contents:read",
	} {
		r := newRig(t)
		c, err := r.Mint(t.Context(), r.grant(scope))
		if !errors.Is(err, provider.ErrRefused) || !c.Token.Empty() || r.hub.Living() != 0 {
			t.Errorf("%s: %v, %d live", name, err, r.hub.Living())
		}
	}
}

// TestLookUpIsPending: if the token of a look-up cannot be revoked, its revocation is pending
// like any other.
func TestLookUpIsPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hub.Break(githubtest.Fault{Method: "DELETE", Path: "/installation/token", Kind: githubtest.Fail, Times: 1})
	g := r.grant(readDocs)
	c, err := r.Mint(t.Context(), g)
	if err == nil || errors.Is(err, provider.ErrRefused) || r.hub.Living() != 1 {
		t.Fatalf("%v, %d live", err, r.hub.Living())
	}
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil || r.hub.Living() != 0 {
		t.Errorf("%v, %d live", err, r.hub.Living())
	}
}

// TestNameMoves: GitHub can assign a repository's name to another repository, but not its id.
// The approval of "docs" applies to repository 3, which had the name at that time.
func TestNameMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mint(t, readDocs)
	r.hub.Delete(3)
	r.hub.Put(githubtest.Repository{ID: 33, Owner: "acme", Name: "docs"})
	r.hub.Install(githubtest.Installation{ID: acme, Owner: "acme", Permissions: granted(), Repositories: []int64{1, 2, 33}})
	before := r.hub.Living()
	for range 2 {
		_, err := r.Mint(t.Context(), r.grant(readDocs))
		refused := (*provider.RefusedError)(nil)
		if !errors.As(err, &refused) || !strings.Contains(refused.Public, "another repository than before") || strings.Contains(refused.Public, "33") {
			t.Errorf("%v", err)
		}
	}
	if !strings.Contains(r.log.String(), "acme/docs was repository 3 and is 33 now") || r.hub.Living() != before {
		t.Errorf("%d live; log: %s", r.hub.Living(), r.log)
	}

	// Two names change places: each id is called something else than it was.
	r = newRig(t)
	r.hub.Put(githubtest.Repository{ID: 2, Owner: "acme", Name: "web"}, githubtest.Repository{ID: 1, Owner: "acme", Name: "api"})
	if _, err := r.Mint(t.Context(), r.grant("gh:acme/@front/contents:read")); !errors.Is(err, provider.ErrRefused) || r.hub.Living() != 0 {
		t.Errorf("pinned names changed places: %v, %d live", err, r.hub.Living())
	}

	// A pinned repository is deleted: nothing else is ever minted in its place.
	r = newRig(t)
	r.hub.Delete(1)
	r.hub.Put(githubtest.Repository{ID: 34, Owner: "acme", Name: "web"})
	_, err := r.Mint(t.Context(), r.grant(readWeb))
	if !errors.Is(err, provider.ErrRefused) || len(r.mints()) != 1 || r.hub.Living() != 0 {
		t.Errorf("%v, %q", err, r.mints())
	}
}

func TestPinnedOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *github.Config) { c.PinnedOnly = true; c.Groups = nil })
	r.mint(t, readWeb)
	if err := r.Check(r.grant(readDocs).Scopes); !errors.Is(err, provider.ErrUnsupported) {
		t.Errorf("Check = %v", err)
	}
	if _, err := r.Mint(t.Context(), r.grant(readDocs)); err == nil || len(r.mints()) != 1 {
		t.Errorf("minted for a repository that is not pinned: %v", err)
	}
}

// TestLookUpRace: many callers request the same name at once. All get a token for the same id,
// and every look-up's token is revoked.
func TestLookUpRace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			if _, err := r.Mint(t.Context(), r.grant(readDocs)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := r.hub.Living(); n != 12 {
		t.Errorf("%d tokens live after 12 mints", n)
	}
}
