package github_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// rig is a driver, the GitHub that it talks to, and their clock.
type rig struct {
	*github.Driver
	hub    *githubtest.Server
	clock  *attesttest.Clock
	log    *attesttest.Log
	config github.Config
	serial atomic.Int64
}

// The installation of every rig: 11 at acme, with repositories 1 web, 2 api and 3
// docs, of which web and api are pinned, and 12 at octo with 9 site.
const (
	acme = 11
	octo = 12
)

func granted() map[string]string {
	return map[string]string{
		"metadata": "read", "contents": "write", "issues": "write", "pull_requests": "write", "workflows": "write", "members": "read", "repository_projects": "admin",
	}
}

func newRig(t testing.TB, change ...func(*github.Config)) *rig {
	t.Helper()
	return newRigAt(t, "", change...)
}

// newRigAt is a rig whose API lies below a path; /api/v3 makes it an Enterprise
// Server, with git on the same host.
func newRigAt(t testing.TB, prefix string, change ...func(*github.Config)) *rig {
	t.Helper()
	r := &rig{clock: attesttest.NewClock(), log: &attesttest.Log{}}
	r.hub = githubtest.New(t, githubtest.Config{Now: r.clock.Now, Prefix: prefix})
	r.hub.Put(
		githubtest.Repository{ID: 1, Owner: "acme", Name: "web"}, githubtest.Repository{ID: 2, Owner: "acme", Name: "api"},
		githubtest.Repository{ID: 3, Owner: "acme", Name: "docs"}, githubtest.Repository{ID: 9, Owner: "octo", Name: "site"},
	)
	r.hub.Install(githubtest.Installation{ID: acme, Owner: "acme", Permissions: granted(), Repositories: []int64{1, 2, 3}})
	r.hub.Install(githubtest.Installation{ID: octo, Owner: "octo", Permissions: granted(), Repositories: []int64{9}})
	file := filepath.Join(t.TempDir(), "app.pem")
	r.hub.Trust(githubtest.Key(t))
	r.hub.WriteKey(file, githubtest.Key(t))
	r.config = github.Config{
		ClientID: "Iv23liEbbTest00000001", PrivateKeyFile: file, Installations: map[string]int64{"acme": acme, "octo": octo},
		Permissions: granted(), Repositories: map[string]int64{"acme/web": 1, "acme/api": 2},
		Groups: map[string][]string{"acme/@front": {"web", "api"}, "octo/*": {"site"}},
		APIURL: r.hub.URL, GitURL: r.hub.Git, CAFile: r.hub.CAFile(), TimeoutSeconds: 60,
		Now: r.clock.Now, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	for _, c := range change {
		c(&r.config)
	}
	var err error
	if r.Driver, err = github.New(r.config); err != nil {
		t.Fatal(err)
	}
	return r
}

// grant is a new grant of 15 minutes.
func (r *rig) grant(scope string) provider.Grant {
	now := r.clock.Now()
	return provider.Grant{
		LeaseID: fmt.Sprintf("lse_%032x", r.serial.Add(1)), Instance: "0123abcd", TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "sbx_1",
		Scopes: scopes.MustParseSet(scope), IssuedAt: now, ExpiresAt: now.Add(15 * time.Minute),
	}
}

func (r *rig) target(g provider.Grant, handle secret.Secret) provider.Target {
	return provider.Target{LeaseID: g.LeaseID, Instance: g.Instance, TaskID: g.TaskID, Scopes: g.Scopes, Handle: handle, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, Now: r.clock.Now()}
}

// mint mints or fails the test.
func (r *rig) mint(t testing.TB, scope string) (provider.Grant, provider.Credential) {
	t.Helper()
	g := r.grant(scope)
	c, err := r.Mint(t.Context(), g)
	if err != nil {
		t.Fatalf("minting %s: %v", scope, err)
	}
	return g, c
}

// alive uses a token where it counts.
func (r *rig) alive(ctx context.Context, token string) (bool, error) {
	return r.status(ctx, "/installation/repositories", "Bearer "+token)
}

func (r *rig) status(ctx context.Context, path, auth string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.hub.URL+path, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", auth)
	res, err := r.trusting().Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK, nil
}

// trusting is a client that is not the driver's.
func (r *rig) trusting() *http.Client {
	raw, err := os.ReadFile(r.config.CAFile)
	if err != nil {
		panic(err)
	}
	block, _ := pem.Decode(raw)
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return provider.HTTP{Roots: pool}.Client()
}

// mints are the bodies of the mints that arrived.
func (r *rig) mints() []string {
	var out []string
	for _, c := range r.hub.Calls() {
		if strings.HasSuffix(c.Path, "/access_tokens") {
			out = append(out, c.Body)
		}
	}
	return out
}

// impatient is for tests in which GitHub never answers.
func impatient(c *github.Config) { c.TimeoutSeconds = 3 }

const readWeb = "gh:acme/web/contents:read"
