package github_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
	"github.com/ebb-broker/ebb/broker/secret"
)

const mintPath = "/app/installations/11/access_tokens"

// TestLostAnswer: after each lost response to a mint, the broker learns that a token may
// exist, and no later revocation of it succeeds.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for _, kind := range []githubtest.Kind{
		githubtest.Hang, githubtest.HangAfter, githubtest.Fail, githubtest.FailAfter, githubtest.Cut, githubtest.Garbage, githubtest.Huge, githubtest.Portal, githubtest.Redirect,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, impatient)
			r.hub.Break(githubtest.Fault{Method: "POST", Path: mintPath, Kind: kind})
			g := r.grant(readWeb)
			var saved secret.Secret
			g.Save = func(_ context.Context, h secret.Secret) error { saved = h; return nil }
			c, err := r.Mint(t.Context(), g)
			busy := (*provider.BusyError)(nil)
			if err == nil || errors.Is(err, provider.ErrRefused) || errors.As(err, &busy) || !c.Token.Empty() {
				t.Fatalf("minting: %v", err)
			}
			for name, handle := range map[string]secret.Secret{"saved": saved, "returned": c.Handle} {
				if err := r.Revoke(t.Context(), r.target(g, handle)); !errors.Is(err, provider.ErrLost) {
					t.Errorf("%s: revoked what nobody has: %v", name, err)
				}
				if _, err := r.Probe(t.Context(), r.target(g, handle)); err == nil {
					t.Errorf("%s: probed what nobody has", name)
				}
				late := r.target(g, handle)
				late.Now = late.Now.Add(24 * time.Hour)
				if err := r.Revoke(t.Context(), late); !errors.Is(err, provider.ErrLost) {
					t.Errorf("%s, a day later, GitHub is said to have revoked it: %v", name, err)
				}
			}
		})
	}
}

// TestNeverAsked: after a request that did not reach GitHub, no revocation is pending.
func TestNeverAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *github.Config) { c.APIURL = "https://127.0.0.1:1" })
	g := r.grant(readWeb)
	c, err := r.Mint(t.Context(), g)
	if err == nil || c.Handle.Empty() {
		t.Fatalf("%v", err)
	}
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil {
		t.Errorf("revoking what was never asked for: %v", err)
	}
	if alive, err := r.Probe(t.Context(), r.target(g, c.Handle)); alive || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("probing what was never asked for: %v, %v", alive, err)
	}

	r = newRig(t)
	g = r.grant(readWeb)
	g.Save = func(context.Context, secret.Secret) error { return errors.New("the database is down") }
	if c, err = r.Mint(t.Context(), g); err == nil || len(r.hub.Calls()) != 0 {
		t.Errorf("GitHub was asked although that could not be saved: %v", err)
	}
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil {
		t.Error(err)
	}
}

// TestSavedBeforeAsked: the driver saves the handle before it sends the first byte that could
// make a token, also for look-ups.
func TestSavedBeforeAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g := r.grant("gh:acme/docs/contents:read")
	g.Save = func(context.Context, secret.Secret) error {
		if n := len(r.hub.Calls()); n != 0 {
			t.Errorf("%d calls before saving", n)
		}
		return nil
	}
	if _, err := r.Mint(t.Context(), g); err != nil || len(r.mints()) != 2 {
		t.Errorf("%v, %d mints", err, len(r.mints()))
	}
}

// TestHungUp: the caller disconnects during a mint. A token that exists is then revoked, or
// its revocation is pending.
func TestHungUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hub.Break(githubtest.Fault{Method: "POST", Path: mintPath, Kind: githubtest.HangAfter})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(r.mints()) == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	g := r.grant(readWeb)
	c, err := r.Mint(ctx, g)
	if !errors.Is(err, context.Canceled) || r.Revoke(t.Context(), r.target(g, c.Handle)) == nil {
		t.Errorf("%v", err)
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	const path = "/installation/token"
	for _, tt := range []struct {
		kind       githubtest.Kind
		ok, living bool
	}{
		{githubtest.Hang, false, true}, {githubtest.Fail, false, true}, {githubtest.Portal, false, true}, {githubtest.Gateway, false, true}, {githubtest.Redirect, false, true},
		{githubtest.FailAfter, false, false}, {githubtest.HangAfter, false, false},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, impatient)
			g, c := r.mint(t, readWeb)
			r.hub.Break(githubtest.Fault{Method: "DELETE", Path: path, Kind: tt.kind, Times: 1})
			if err := r.Revoke(t.Context(), r.target(g, c.Handle)); (err == nil) != tt.ok || errors.Is(err, provider.ErrRefused) || (r.hub.Living() == 1) != tt.living {
				t.Errorf("%v, %d live", err, r.hub.Living())
			}
			if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil || r.hub.Living() != 0 {
				t.Errorf("again: %v, %d live", err, r.hub.Living())
			}
		})
	}
}

// TestSuspendedIsNotDead: a suspended installation refuses its tokens, which are valid again
// after the suspension. The driver does not report them as dead.
func TestSuspendedIsNotDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g, c := r.mint(t, readWeb)
	r.hub.Suspend(acme, true)
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("revoked while suspended: %v", err)
	}
	if alive, err := r.Probe(t.Context(), r.target(g, c.Handle)); err == nil {
		t.Errorf("probed as %v while suspended", alive)
	}
	r.hub.Suspend(acme, false)
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil || r.hub.Living() != 0 {
		t.Errorf("afterwards: %v", err)
	}
}

func TestExpiredIsDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g, c := r.mint(t, readWeb)
	r.clock.Advance(time.Hour)
	if alive, err := r.Probe(t.Context(), r.target(g, c.Handle)); alive || err != nil {
		t.Errorf("probed as %v, %v", alive, err)
	}
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil {
		t.Error(err)
	}
}

func TestProbeFaults(t *testing.T) {
	t.Parallel()
	for _, kind := range []githubtest.Kind{githubtest.Hang, githubtest.Fail, githubtest.Portal, githubtest.Gateway, githubtest.Redirect, githubtest.FailAfter} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, impatient)
			g, c := r.mint(t, readWeb)
			r.hub.Break(githubtest.Fault{Method: "GET", Path: "/installation/repositories", Kind: kind})
			if alive, err := r.Probe(t.Context(), r.target(g, c.Handle)); err == nil {
				t.Errorf("alive %v without an answer", alive)
			}
		})
	}
}
