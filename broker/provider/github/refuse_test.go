package github_test

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
)

// TestRefusals: each refusal tells the caller what to do next, and names only values from its
// request: no id, no message of GitHub, no token.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scope   string
		arrange func(*rig)
		public  string
	}{
		"permission is not granted": {
			"gh:acme/web/issues:write gh:acme/web/contents:write", func(r *rig) {
				r.hub.Install(githubtest.Installation{ID: acme, Owner: "acme", Permissions: map[string]string{"metadata": "read", "contents": "read"}, Repositories: []int64{1}})
			}, "The GitHub App was not granted contents:write issues:write at acme. Request less, or have an owner of acme grant it.",
		},
		"repository is not in the installation": {
			readWeb, func(r *rig) {
				r.hub.Install(githubtest.Installation{ID: acme, Owner: "acme", Permissions: granted(), Repositories: []int64{2}})
			}, "The GitHub App cannot reach acme/web. Spell it as GitHub does, or have an owner add it to the installation.",
		},
		"one of a group is not, and its members stay untold": {
			"gh:acme/@front/contents:read", func(r *rig) { r.hub.Delete(2) },
			"The GitHub App cannot reach acme/@front. Spell it as GitHub does, or have an owner add it to the installation.",
		},
		"unknown name": {
			"gh:acme/nope/contents:read", func(*rig) {}, "The GitHub App cannot reach acme/nope. Spell it as GitHub does, or have an owner add it to the installation.",
		},
		"suspended": {
			readWeb, func(r *rig) { r.hub.Suspend(acme, true) }, "The installation of the GitHub App at acme is suspended. An owner of it must unsuspend it.",
		},
		"uninstalled": {
			readWeb, func(r *rig) { r.hub.Uninstall(acme) }, "The GitHub App is not installed at acme any more. The operator of ebb must check its installation.",
		},
		"App deleted": {
			readWeb, func(r *rig) { r.hub.Set(func(a *githubtest.App) { a.Deleted = true }) }, "The GitHub App is not installed at acme any more. The operator of ebb must check its installation.",
		},
		"key revoked": {
			readWeb, func(r *rig) { r.hub.Trust() }, "GitHub does not accept the App's key. The operator of ebb must check it.",
		},
		"another App": {
			readWeb, func(r *rig) { r.hub.Set(func(a *githubtest.App) { a.ClientID = "Iv1.other" }) }, "GitHub does not accept the App's key. The operator of ebb must check it.",
		},
	} {
		r := newRig(t)
		tt.arrange(r)
		g := r.grant(tt.scope)
		c, err := r.Mint(t.Context(), g)
		refused := (*provider.RefusedError)(nil)
		if !errors.As(err, &refused) || refused.Public != tt.public {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, secret := range []string{"ghs_", "Bearer", "eyJ", "PRIVATE"} {
			if strings.Contains(fmt.Sprintf("%v %+v", err, c), secret) {
				t.Errorf("%s: the error holds %s: %v", name, secret, err)
			}
		}
		// Nothing was made, so nothing is pending.
		if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil || r.hub.Living() != 0 {
			t.Errorf("%s: %v, %d live", name, err, r.hub.Living())
		}
	}
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		arrange func(*rig)
		after   time.Duration
	}{
		"primary":                         {func(r *rig) { r.hub.Budget(0, r.clock.Now().Add(17*time.Minute)) }, 17 * time.Minute},
		"primary, reset has passed":       {func(r *rig) { r.hub.Budget(0, r.clock.Now().Add(time.Second)) }, time.Second},
		"primary, reset is absurd":        {func(r *rig) { r.hub.Budget(0, r.clock.Now().Add(1000*time.Hour)) }, time.Hour},
		"primary, GitHub's clock differs": {func(r *rig) { r.hub.Skew(40 * time.Second); r.hub.Budget(0, r.clock.Now().Add(100*time.Second)) }, time.Minute},
		"secondary, 403 with seconds":     {func(r *rig) { r.hub.Secondary(githubtest.Limit{Status: 403, RetryAfter: "45"}) }, 45 * time.Second},
		"secondary, 429 with seconds":     {func(r *rig) { r.hub.Secondary(githubtest.Limit{Status: 429, RetryAfter: "45"}) }, 45 * time.Second},
		"secondary, absurd":               {func(r *rig) { r.hub.Secondary(githubtest.Limit{Status: 429, RetryAfter: "999999"}) }, time.Hour},
		"secondary, no number":            {func(r *rig) { r.hub.Secondary(githubtest.Limit{Status: 429, RetryAfter: "-1"}) }, time.Minute},
		"secondary, 403 without header":   {func(r *rig) { r.hub.Secondary(githubtest.Limit{Status: 403}) }, time.Minute},
		"429 without anything":            {func(r *rig) { r.hub.Secondary(githubtest.Limit{Status: 429, Message: "slow down"}) }, time.Minute},
	} {
		busy := (*provider.BusyError)(nil)
		r := newRig(t)
		tt.arrange(r)
		g := r.grant(readWeb)
		c, err := r.Mint(t.Context(), g)
		if !errors.As(err, &busy) || busy.After != tt.after || errors.Is(err, provider.ErrRefused) {
			t.Errorf("%s: minting: %v, want to wait %s", name, err, tt.after)
		}
		if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil || r.hub.Living() != 0 {
			t.Errorf("%s: something is pending: %v", name, err)
		}
		r = newRig(t)
		g, c = r.mint(t, readWeb)
		tt.arrange(r)
		if err := r.Revoke(t.Context(), r.target(g, c.Handle)); !errors.As(err, &busy) || busy.After != tt.after {
			t.Errorf("%s: revoking: %v, want to wait %s", name, err, tt.after)
		}
		r = newRig(t)
		g, c = r.mint(t, readWeb)
		tt.arrange(r)
		if _, err := r.Probe(t.Context(), r.target(g, c.Handle)); !errors.As(err, &busy) || busy.After != tt.after {
			t.Errorf("%s: probing: %v, want to wait %s", name, err, tt.after)
		}
	}
}

// TestForbiddenIsNotBusy: a 403 without the form of a rate limit is not one.
func TestForbiddenIsNotBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hub.Secondary(githubtest.Limit{Status: 403, Message: "Resource not accessible by integration"})
	if _, err := r.Mint(t.Context(), r.grant(readWeb)); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("%v", err)
	}
}

// TestKeyRotates: an operator replaces the key in its file. The next mint uses the new key,
// without a restart and without a failure. The driver tries a key that GitHub no longer
// accepts at most twice.
func TestKeyRotates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mint(t, readWeb)
	next, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r.hub.Trust(next)
	before := len(r.hub.Calls())
	if _, err := r.Mint(t.Context(), r.grant(readWeb)); !errors.Is(err, provider.ErrRefused) || len(r.hub.Calls())-before != 2 {
		t.Errorf("with the old key: %v, %d calls", err, len(r.hub.Calls())-before)
	}
	r.hub.WriteKey(r.config.PrivateKeyFile, next)
	r.clock.Advance(time.Minute)
	r.mint(t, readWeb)
}

// TestJWTLasts: one JWT is used for many mints, and replaced long before GitHub would refuse
// it.
func TestJWTLasts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 40 {
		r.mint(t, readWeb)
		r.clock.Advance(37 * time.Second)
	}
	r.clock.Advance(-time.Hour) // the clock was wrong and is set back
	r.mint(t, readWeb)
}
