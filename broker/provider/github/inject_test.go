package github_test

import (
	"errors"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// hubs are drivers for github.com and for an Enterprise Server, which connect to nothing.
func hubs(t testing.TB) map[string]*github.Driver {
	t.Helper()
	all := map[string]string{}
	for _, p := range []string{"actions", "administration", "checks", "contents", "deployments", "issues", "packages", "pull_requests", "statuses", "secrets", "workflows"} {
		all[p] = "write"
	}
	return map[string]*github.Driver{
		"github.com": newRig(t, func(c *github.Config) { c.APIURL, c.GitURL, c.Permissions = "", "", all }).Driver,
		"ghes":       newRig(t, func(c *github.Config) { c.APIURL, c.GitURL, c.Permissions = "https://git.example.com/api/v3", "", all }).Driver,
	}
}

const (
	basic  = "Basic eC1hY2Nlc3MtdG9rZW46Z2hzX3g="
	bearer = "Bearer ghs_x"
)

// inject says what a request has in Authorization afterwards; "" = it was refused.
func inject(t testing.TB, d *github.Driver, scope, method, url, host string) string {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	if host != "" {
		req.Host = host
	}
	req.Header.Set("Authorization", "Bearer somebody-else")
	lease := func(scope string) provider.Target {
		return provider.Target{Scopes: scopes.MustParseSet(scope), Handle: secret.New("ghs_x")}
	}
	before := req.Clone(t.Context())
	err = d.Inject(t.Context(), req, lease(scope))
	providertest.ScopesFor(t, d, "gh", before, err == nil, lease)
	got := req.Header.Get("Authorization")
	if err == nil {
		return got
	}
	if !errors.Is(err, provider.ErrElsewhere) || got != "Bearer somebody-else" {
		t.Errorf("%s %s: refused with %v, and has %q", method, url, err, got)
	}
	return ""
}

// TestInject: (E62, E69, E70, E108) the token goes to the API and to git of this GitHub, to the repositories of
// the scopes, for what their permissions are for.
//
//ebb:invariant I2 Each provider that checks requests suggests in a refusal only scopes that allow the refused request
//ebb:invariant I6 The GitHub provider adds its token to no API route that is missing from its permission tables
//ebb:invariant I6 The GitHub provider adds its token to no request for a repository outside the lease's scopes, in any spelling of its path
//ebb:invariant I6 The GitHub provider adds its token to no `git push` under a scope that only reads
func TestInject(t *testing.T) {
	t.Parallel()
	ds := hubs(t)
	const read, write, refs = "gh:acme/web/contents:read", "gh:acme/web/contents:write", "gh:acme/web/refs/heads/agent/**:update"
	for _, tt := range []struct{ hub, scope, method, url, want string }{
		{"github.com", "gh:acme/web/metadata:read", "GET", "https://api.github.com/repos/acme/web/topics", bearer},
		{"github.com", "gh:acme/web/metadata:read", "GET", "https://api.github.com/repos/acme/web/rulesets/7", bearer},
		{"github.com", write, "POST", "https://api.github.com/repos/acme/web/commits/x/comments", bearer},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/pulls/7", bearer},
		{"github.com", "gh:acme/web/pull_requests:write", "POST", "https://api.github.com/repos/acme/web/issues/7/comments", bearer},
		{"github.com", "gh:acme/web/contents:write gh:acme/web/workflows:write", "PUT", "https://api.github.com/repos/acme/web/contents/.github/workflows/a.yml", bearer},
		{"github.com", read, "GET", "https://api.github.com:443/repos/acme/web/contents/a%20b/c.txt?ref=x", bearer},
		{"github.com", read, "HEAD", "https://api.github.com/repos/acme/web/contents/", bearer},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/git/ref/heads%2fx", bearer},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/compare/main...feature/x", bearer},
		{"github.com", write, "PUT", "https://api.github.com/repos/acme/web/contents/a", bearer},
		{"github.com", write, "GET", "https://api.github.com/repos/acme/web/contents/a", bearer},
		{"github.com", write, "PUT", "https://api.github.com/repos/acme/web/pulls/7/merge", bearer},
		{"github.com", "gh:acme/web/issues:write", "DELETE", "https://api.github.com/repos/acme/web/issues/1/labels/kind%2Fbug", bearer},
		{"github.com", "gh:acme/web/pull_requests:write", "POST", "https://api.github.com/repos/acme/web/pulls", bearer},
		{"github.com", "gh:acme/web/actions:read", "GET", "https://api.github.com/repos/acme/web/actions/runs", bearer},
		{"github.com", "gh:acme/web/checks:read", "GET", "https://api.github.com/repos/acme/web/commits/x/check-runs", bearer},
		{"github.com", "gh:acme/web/statuses:write", "POST", "https://api.github.com/repos/acme/web/statuses/abc", bearer},
		{"github.com", "gh:acme/web/deployments:read", "GET", "https://api.github.com/repos/acme/web/deployments", bearer},
		{"github.com", read, "GET", "https://github.com/acme/web.git/info/refs?service=git-upload-pack", basic},
		{"github.com", read, "POST", "https://github.com/acme/web/git-upload-pack", basic},
		{"github.com", write, "GET", "https://github.com/acme/web.git/info/refs?service=git-receive-pack", basic},
		{"github.com", write, "POST", "https://github.com/acme/web.git/git-receive-pack", basic},
		{"github.com", refs, "GET", "https://github.com/acme/web.git/info/refs?service=git-receive-pack", basic},
		{"github.com", refs, "POST", "https://github.com/acme/web.git/git-receive-pack", basic},
		{"github.com", read + " " + refs, "POST", "https://github.com/acme/web/git-upload-pack", basic},
		{"ghes", read, "GET", "https://git.example.com/api/v3/repos/acme/web/readme", bearer},
		{"ghes", read, "POST", "https://git.example.com/acme/web.git/git-upload-pack", basic},
		{"github.com", read, "POST", "https://api.github.com/graphql", bearer},
		{"ghes", read, "POST", "https://git.example.com/api/graphql", bearer},

		// Requests that need another permission, level, method or repository.
		{"github.com", read, "POST", "https://api.github.com/repos/acme/web/commits/x/comments", ""},
		{"github.com", "gh:acme/web/metadata:read", "GET", "https://api.github.com/repos/acme/web/rulesets/rule-suites", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/pulls/comments", ""},
		{"github.com", "gh:acme/web/pull_requests:read", "GET", "https://api.github.com/repos/acme/web/issues/7", ""},
		{"github.com", "gh:acme/web/pull_requests:write", "POST", "https://api.github.com/repos/acme/web/issues", ""},
		{"github.com", "gh:acme/web/workflows:write", "PUT", "https://api.github.com/repos/acme/web/contents/.github/workflows/a.yml", ""},
		{"github.com", read, "PUT", "https://api.github.com/repos/acme/web/contents/a", ""},
		{"github.com", read, "PUT", "https://api.github.com/repos/acme/web/pulls/7/merge", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/branches/main/protection", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/branches/main%2fprotection", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/commits/x/check-runs", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/api/readme", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/Acme/web/readme", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme%2fweb/x/readme", ""},
		{"github.com", read, "GET", "https://api.github.com/repositories/1/readme", ""},
		{"github.com", "gh:acme/web/contents:write gh:acme/web/issues:read", "POST", "https://api.github.com/repos/acme/web/issues", ""},
		{"github.com", "gh:acme/web/administration:write", "POST", "https://api.github.com/repos/acme/web/keys", ""},
		{"github.com", read, "POST", "https://github.com/acme/web.git/git-receive-pack", ""},
		{"github.com", read, "GET", "https://github.com/acme/web.git/info/refs?service=git-receive-pack", ""},
		{"github.com", refs, "GET", "https://github.com/acme/web.git/info/refs?service=git-upload-pack", ""},
		{"github.com", refs, "POST", "https://github.com/acme/api.git/git-receive-pack", ""},
		{"github.com", refs, "GET", "https://api.github.com/repos/acme/web/contents/a", ""},
		{"github.com", refs, "POST", "https://api.github.com/repos/acme/web/git/refs", ""},
		{"github.com", refs + " gh:acme/web/pull_requests:write", "PUT", "https://api.github.com/repos/acme/web/pulls/7/update-branch", ""},
		{"github.com", refs + " gh:acme/web/pull_requests:write gh:acme/api/contents:write gh:acme/api/pull_requests:write", "PUT", "https://api.github.com/repos/acme/api/pulls/7/update-branch", ""}, // its branch can be one of web
		{"github.com", refs + " gh:acme/web/deployments:write", "POST", "https://api.github.com/repos/acme/web/deployments", ""},
		{"github.com", refs + " gh:acme/web/deployments:write", "GET", "https://api.github.com/repos/acme/web/deployments", bearer},
		{"github.com", "gh:acme/web/pull_requests:write", "PUT", "https://api.github.com/repos/acme/web/pulls/7/update-branch", bearer},
		{"github.com", refs + " gh:acme/web/pull_requests:write gh:acme/web/contents:write", "PUT", "https://api.github.com/repos/acme/web/pulls/7/update-branch", bearer},
		{"github.com", refs + " gh:acme/web/pull_requests:write", "PUT", "https://api.github.com/repos/acme/web/pulls/7/merge", ""},
		{"github.com", refs, "PATCH", "https://api.github.com/repos/acme/web/git/refs/heads/agent/x", ""},
		{"github.com", read + " " + refs, "PUT", "https://api.github.com/repos/acme/web/contents/a", ""},
		{"github.com", "gh:acme/web/contents:write gh:acme/api/refs/heads/agent/**:update", "PUT", "https://api.github.com/repos/acme/api/contents/a", ""},
		{"github.com", "gh:acme/web/contents:write gh:acme/api/refs/heads/agent/**:update", "PUT", "https://api.github.com/repos/acme/web/contents/a", bearer},
		{"github.com", write, "GET", "https://github.com/acme/web.git/info/refs?service=git-upload-archive", ""},
		{"github.com", write, "GET", "https://github.com/acme/web.git/info/refs?service=git-upload-pack&service=git-receive-pack", ""},
		{"github.com", write, "GET", "https://github.com/acme/web.git/info/refs", ""},
		{"github.com", "gh:acme/web/issues:write", "POST", "https://github.com/acme/web.git/git-upload-pack", ""},
		// Requests whose response may contain a clone token, a credential or a link to one,
		// and requests that cannot be checked.
		{"github.com", "gh:acme/web/metadata:read gh:acme/web/contents:write", "GET", "https://api.github.com/repos/acme/web", ""},
		{"github.com", "gh:acme/web/deployments:write", "POST", "https://api.github.com/repos/acme/web/actions/runs/1/pending_deployments", ""},
		{"github.com", write, "GET", "https://api.github.com/graphql", ""},
		{"github.com", write, "POST", "https://api.github.com/graphql?query=x", ""},
		{"github.com", write, "POST", "https://api.github.com/graphql/x", ""},
		{"github.com", write, "POST", "https://api.github.com/api/graphql", ""},
		{"github.com", write, "POST", "https://github.com/graphql", ""},
		{"ghes", write, "POST", "https://git.example.com/api/v3/graphql", ""},
		{"ghes", write, "POST", "https://git.example.com/graphql", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/tarball/main", ""},
		{"github.com", read, "GET", "https://api.github.com/repos/acme/web/releases/assets/1", ""},
		{"github.com", "gh:acme/web/actions:write", "GET", "https://api.github.com/repos/acme/web/actions/artifacts/1/zip", ""},
		{"github.com", "gh:acme/web/actions:write", "GET", "https://api.github.com/repos/acme/web/actions/runs/1/logs", ""},
		{"github.com", "gh:acme/web/administration:write", "POST", "https://api.github.com/repos/acme/web/actions/runners/registration-token", ""},
		{"github.com", write, "POST", "https://github.com/acme/web.git/info/lfs/objects/batch", ""},
		{"github.com", write, "POST", "https://api.github.com/app/installations/1/access_tokens", ""},
	} {
		if got := inject(t, ds[tt.hub], tt.scope, tt.method, tt.url, ""); got != tt.want {
			t.Errorf("%s: %s %s has %q, want %q", tt.scope, tt.method, tt.url, got, tt.want)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, "https://api.github.com/repos/acme/web/readme", nil)
	if err := ds["github.com"].Inject(t.Context(), req, provider.Target{Scopes: scopes.MustParseSet(read)}); err == nil {
		t.Error("nothing was injected")
	}
}

// TestInjectNowhereElse: (E13, E21, E55, E56, E57, E58, E60, E61, E63, E65, E66, E67, E82) no other host, and no path that two servers could read in two ways.
//
//ebb:invariant I6 The GitHub provider adds its token to no request for a repository outside the lease's scopes, in any spelling of its path
func TestInjectNowhereElse(t *testing.T) {
	t.Parallel()
	ds := hubs(t)
	for _, tt := range []struct{ hub, url, host string }{
		{"github.com", "http://api.github.com/repos/acme/web/readme", ""},
		{"github.com", "https://api.github.com:8443/repos/acme/web/readme", ""},
		{"github.com", "https://api.github.com.evil.example/repos/acme/web/readme", ""},
		{"github.com", "https://evil.example/repos/acme/web/readme", "api.github.com"},
		{"github.com", "https://api.github.com/repos/acme/web/readme", "evil.example"},
		{"github.com", "https://x@api.github.com/repos/acme/web/readme", ""},
		{"github.com", "https://uploads.github.com/repos/acme/web/readme", ""},
		{"github.com", "https://gist.github.com/acme/web/git-upload-pack", ""},
		{"github.com", "https://github.com/repos/acme/web/readme", ""},
		{"github.com", "https://api.github.com/acme/web/info/refs?service=git-upload-pack", ""},
		{"github.com", "https://github.com/acme/web/../../login/info/refs?service=git-upload-pack", ""},
		{"github.com", "https://github.com//acme/web/info/refs?service=git-upload-pack", ""},
		{"github.com", "https://github.com/acme/web/info/refs/?service=git-upload-pack", ""},
		{"github.com", "https://github.com/acme/web/info%2frefs?service=git-upload-pack", ""},
		{"github.com", "https://github.com/acme/web.git.git/info/refs?service=git-upload-pack", ""},
		{"github.com", "https://api.github.com/repos/acme/web/../api/readme", ""},
		{"github.com", "https://api.github.com/repos/acme/web/%2e%2e/api/readme", ""},
		{"github.com", "https://api.github.com/repos/acme/web/..;/api/readme", ""},
		{"github.com", "https://api.github.com/repos/acme/web/contents/..%2f..%2fapi", ""},
		{"github.com", "https://api.github.com/repos/acme/web/contents/a%5cb", ""},
		{"github.com", "https://api.github.com/repos/acme/web/contents/a%00", ""},
		{"github.com", "https://api.github.com/repos/acme/web/contents/%c0%ae", ""},
		{"github.com", "https://api.github.com/repos/acme/web/contents/a%3fb", ""},
		{"github.com", "https://api.github.com/repos/acme/web//contents/a", ""},
		{"github.com", "https://api.github.com/repos/acme/web/./readme", ""},
		{"github.com", "https://api.github.com/repos/acme/web/readme?_method=DELETE", ""},
		{"github.com", "https://api.github.com/repos/acme/web/readme?a=1;b=2", ""},
		{"ghes", "https://git.example.com/api/v3", ""},
		{"ghes", "https://git.example.com/api/v3/../../login", ""},
		{"ghes", "https://git.example.com/api/v4/repos/acme/web/readme", ""},
		{"ghes", "https://git.example.com/repos/acme/web/readme", ""},
		{"ghes", "https://api.github.com/repos/acme/web/readme", ""},
	} {
		if got := inject(t, ds[tt.hub], "gh:acme/web/contents:read", "GET", tt.url, tt.host); got != "" {
			t.Errorf("%s (%s): %q", tt.url, tt.host, got)
		}
	}
	for _, header := range []string{"X-HTTP-Method-Override", "X-Original-URL", "X_HTTP_METHOD"} {
		req, _ := http.NewRequest(http.MethodGet, "https://api.github.com/repos/acme/web/readme", nil)
		req.Header[header] = []string{"DELETE"}
		err := ds["github.com"].Inject(t.Context(), req, provider.Target{Scopes: scopes.MustParseSet("gh:acme/web/contents:read"), Handle: secret.New("ghs_x")})
		if !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s: %v", header, err)
		}
	}
}

// TestInjects: egress is for scopes of which all routes are known.
func TestInjects(t *testing.T) {
	t.Parallel()
	d := hubs(t)["github.com"]
	for scope, want := range map[string]bool{
		"gh:acme/web/contents:read": true, "gh:acme/web/contents:write gh:acme/web/issues:read": true, "gh:acme/web/packages:read": false,
		"gh:acme/web/contents:write gh:acme/web/workflows:write": true,
		"gh:acme/web/contents:read gh:acme/web/secrets:write":    false, "gh:other/web/contents:read": false,
	} {
		if got := d.Injects(scopes.MustParseSet(scope)); got != want {
			t.Errorf("%s: %v", scope, got)
		}
	}
}

// injected sends a request to an Enterprise Server as egress would: the driver knows it by
// its name, under which it is reached here only.
func (r *rig) injected(t *testing.T, scope string, c provider.Credential, path string) (auth string, status int) {
	t.Helper()
	conf := r.config
	conf.APIURL, conf.GitURL = "https://git.example.com/api/v3", ""
	named, err := github.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://git.example.com"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := named.Inject(t.Context(), req, provider.Target{Scopes: scopes.MustParseSet(scope), Handle: c.Handle}); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	auth = req.Header.Get("Authorization")
	out, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.hub.Git+path, nil)
	out.Header.Set("Authorization", auth)
	res, err := r.trusting().Do(out)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return auth, res.StatusCode
}

// TestInjectedIsAccepted: GitHub accepts the request with the injected token, for the API and
// for git.
func TestInjectedIsAccepted(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "/api/v3")
	const scope = "gh:acme/web/contents:read gh:acme/web/issues:read"
	_, c := r.mint(t, scope)
	for _, path := range []string{"/api/v3/repos/acme/web/issues", "/acme/web.git/info/refs?service=git-upload-pack"} {
		if _, status := r.injected(t, scope, c, path); status != http.StatusOK {
			t.Errorf("%s answered %d", path, status)
		}
	}
}

// TestGit: git itself uses the token with Basic authentication, and is refused after its
// revocation.
func TestGit(t *testing.T) {
	t.Parallel()
	git := counterpart.Program(t, "git")
	r := newRigAt(t, "/api/v3")
	g, c := r.mint(t, readWeb)
	auth, _ := r.injected(t, readWeb, c, "/acme/web.git/info/refs?service=git-upload-pack")
	remote := func() error {
		cmd := exec.CommandContext(t.Context(), git, "-c", "http.sslCAInfo="+r.config.CAFile, "-c", "http.extraHeader=Authorization: "+auth,
			"-c", "credential.helper=", "-c", "core.askPass=true", "ls-remote", r.hub.Git+"/acme/web.git")
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1"}
		cmd.WaitDelay = 10 * time.Second
		return cmd.Run()
	}
	if err := remote(); err != nil {
		t.Errorf("git ls-remote: %v", err)
	}
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if err := remote(); err == nil {
		t.Error("git reads with a revoked token")
	}
}

// TestEnterpriseServer: an Enterprise Server has its API below a path, and git on the same
// host.
func TestEnterpriseServer(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "/api/v3", func(c *github.Config) { c.APIVersion = "2022-11-28"; c.GitURL = "" })
	const scope = "gh:acme/docs/contents:write gh:acme/docs/issues:read"
	g, c := r.mint(t, scope)
	for _, path := range []string{"/api/v3/repos/acme/docs/issues", "/acme/docs.git/info/refs?service=git-receive-pack"} {
		if _, status := r.injected(t, scope, c, path); status != http.StatusOK {
			t.Errorf("%s answered %d", path, status)
		}
	}
	if err := r.Revoke(t.Context(), r.target(g, c.Handle)); err != nil || r.hub.Living() != 0 {
		t.Error(err)
	}
	if found := r.CheckSetup(t.Context()); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	for _, call := range r.hub.Calls() {
		if strings.HasPrefix(call.Path, "/app") && http.Header(call.Header).Get("X-Github-Api-Version") != "2022-11-28" {
			t.Errorf("%s %s without the version of the API", call.Method, call.Path)
		}
	}
}

// FuzzInject: for arbitrary requests, the driver adds the token only to a request for the
// scope's repository, at its host, with an unambiguous path.
func FuzzInject(f *testing.F) {
	d := hubs(f)["github.com"]
	for _, u := range []string{"https://api.github.com/repos/acme/web/contents/a", "https://github.com/acme/web.git/info/refs?service=git-upload-pack", "https://api.github.com/repos/acme/web/git/ref/heads%2fx", "//api.github.com/repos/acme/web/../api"} {
		f.Add("GET", u, "X-Original-Url", "api.github.com")
	}
	f.Fuzz(func(t *testing.T, method, text, header, host string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: host, Header: http.Header{header: {"x"}}}
		err = d.Inject(t.Context(), r, provider.Target{Scopes: scopes.MustParseSet("gh:acme/web/contents:read"), Handle: secret.New("ghs_x")})
		got := r.Header.Get("Authorization")
		if err != nil {
			if got == basic || got == bearer {
				t.Errorf("refused, and injected: %v", err)
			}
			return
		}
		path := u.EscapedPath()
		api := strings.EqualFold(u.Hostname(), "api.github.com") && strings.HasPrefix(u.Path, "/repos/acme/web/") && (method == "GET" || method == "HEAD") && got == bearer
		git := strings.EqualFold(u.Hostname(), "github.com") && (strings.HasPrefix(u.Path, "/acme/web/") || strings.HasPrefix(u.Path, "/acme/web.git/")) && got == basic &&
			(method == "GET" && u.RawQuery == "service=git-upload-pack" || method == "POST" && strings.HasSuffix(u.Path, "/git-upload-pack"))
		if u.Scheme != "https" || !api && !git || strings.Contains(path, "/../") {
			t.Errorf("%s %s (host %q) has %q", method, text, host, got)
		}
	})
}

// TestDiscloses: (E89) responses of the API may contain credentials; the contents that git
// fetches are not changed.
//
//ebb:invariant I8 A credential that the GitHub API returns in a response does not reach the sandbox
func TestDiscloses(t *testing.T) {
	t.Parallel()
	for name, d := range hubs(t) {
		for url, want := range map[string]bool{
			map[string]string{"github.com": "https://api.github.com", "ghes": "https://git.example.com/api/v3"}[name] + "/repos/acme/web/contents":             true,
			map[string]string{"github.com": "https://github.com", "ghes": "https://git.example.com"}[name] + "/acme/web.git/info/refs?service=git-upload-pack": false,
		} {
			r, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Discloses(r, provider.Target{}); got.Empty() == want || want && (!slices.Contains(got.Members, "temp_clone_token") || !slices.Contains(got.Parameters, "jwt")) {
				t.Errorf("%s: %+v", url, got)
			}
		}
	}
}
