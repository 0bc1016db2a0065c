package github_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ebb/broker/brokertest/counterpart"
	"ebb/broker/provider"
	"ebb/broker/provider/github"
)

func TestInject(t *testing.T) {
	t.Parallel()
	hubs := map[string]*github.Driver{
		"github.com": newRig(t, func(c *github.Config) { c.APIURL, c.GitURL = "", "" }).Driver,
		"ghes":       newRig(t, func(c *github.Config) { c.APIURL, c.GitURL = "https://git.example.com/api/v3", "" }).Driver,
	}
	const basic, bearer = "Basic eC1hY2Nlc3MtdG9rZW46Z2hzX3g=", "Bearer ghs_x"
	for _, tt := range []struct{ hub, url, host, want string }{
		{"github.com", "https://api.github.com/repos/acme/web", "", bearer},
		{"github.com", "https://api.github.com/graphql", "api.github.com", bearer},
		{"github.com", "https://api.github.com:443/user", "", bearer},
		{"github.com", "https://github.com/acme/web.git/info/refs?service=git-upload-pack", "", basic},
		{"github.com", "https://github.com/acme/web/git-receive-pack", "", basic},
		{"github.com", "https://github.com/acme/web.git/info/lfs/objects/batch", "", basic},
		{"ghes", "https://git.example.com/api/v3/repos/acme/web", "", bearer},
		{"ghes", "https://git.example.com/api/graphql", "", bearer},
		{"ghes", "https://git.example.com/api/uploads/repos/acme/web/releases/1/assets", "", bearer},
		{"ghes", "https://git.example.com/acme/web.git/git-upload-pack", "", basic},

		{"github.com", "http://api.github.com/user", "", ""},
		{"github.com", "https://api.github.com:8443/user", "", ""},
		{"github.com", "https://api.github.com.evil.example/user", "", ""},
		{"github.com", "https://evil.example/user", "api.github.com", ""},
		{"github.com", "https://api.github.com/user", "evil.example", ""},
		{"github.com", "https://x@api.github.com/user", "", ""},
		{"github.com", "https://API.github.com/user", "", ""},
		{"github.com", "https://uploads.github.com/user", "", ""},
		{"github.com", "https://gist.github.com/acme/web/info/refs", "", ""},
		{"github.com", "https://github.com/login", "", ""},
		{"github.com", "https://github.com/acme/web/settings", "", ""},
		{"github.com", "https://github.com/acme/web/../../login/info/refs", "", ""},
		{"github.com", "https://github.com/acme/%2e%2e/info/refs", "", ""},
		{"github.com", "https://github.com//acme/web/info/refs", "", ""},
		{"github.com", "https://github.com/acme/web/info/refs/", "", ""},
		{"github.com", "https://github.com/acme/web/info/refs%0a", "", ""},
		{"ghes", "https://git.example.com/api/v3", "", ""},
		{"ghes", "https://git.example.com/api/v3/../../login", "", ""},
		{"ghes", "https://git.example.com/api/v4/user", "", ""},
		{"ghes", "https://git.example.com/login", "", ""},
		{"ghes", "https://api.github.com/user", "", ""},
	} {
		req, err := http.NewRequest(http.MethodGet, tt.url, nil)
		if err != nil {
			t.Fatalf("%s: %v", tt.url, err)
		}
		if tt.host != "" {
			req.Host = tt.host
		}
		req.Header.Set("Authorization", "Bearer somebody-else")
		err = hubs[tt.hub].Inject(t.Context(), req, provider.Target{Handle: provider.NewSecret("ghs_x")})
		if got := req.Header.Get("Authorization"); (err == nil) != (tt.want != "") || (err == nil && got != tt.want) || (err != nil && strings.Contains(got, "ghs_x")) {
			t.Errorf("%s (%s): %q, %v", tt.url, tt.host, got, err)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, "https://api.github.com/user", nil)
	if err := hubs["github.com"].Inject(t.Context(), req, provider.Target{}); err == nil {
		t.Error("nothing was injected")
	}
}

// The injected request is one that GitHub accepts, for the API and for git.
func TestInjectedIsAccepted(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "/api/v3")
	_, c := r.mint(t, readWeb)
	for path, want := range map[string]int{
		r.hub.URL + "/repos/acme/web":                                  200,
		r.hub.URL + "/repos/acme/api":                                  404,
		r.hub.URL + "/repos/acme/web/issues":                           403,
		r.hub.Git + "/acme/web.git/info/refs?service=git-upload-pack":  200,
		r.hub.Git + "/acme/web.git/info/refs?service=git-receive-pack": 403,
		r.hub.Git + "/acme/api.git/info/refs?service=git-upload-pack":  404,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Inject(t.Context(), req, provider.Target{Handle: c.Handle}); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		res, err := r.trusting().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s answered %d, want %d", path, res.StatusCode, want)
		}
	}
}

// git itself takes the token as Basic, and is refused once it is revoked.
func TestGit(t *testing.T) {
	t.Parallel()
	git := counterpart.Program(t, "git")
	r := newRigAt(t, "/api/v3")
	g, c := r.mint(t, readWeb)
	req, _ := http.NewRequest(http.MethodGet, r.hub.Git+"/acme/web.git/info/refs", nil)
	if err := r.Inject(t.Context(), req, provider.Target{Handle: c.Handle}); err != nil {
		t.Fatal(err)
	}
	remote := func() error {
		cmd := exec.CommandContext(t.Context(), git, "-c", "http.sslCAInfo="+r.config.CAFile, "-c", "http.extraHeader=Authorization: "+req.Header.Get("Authorization"),
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

// An Enterprise Server has its API below a path, and git on the same host.
func TestEnterpriseServer(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "/api/v3", func(c *github.Config) { c.APIVersion = "2022-11-28"; c.GitURL = "" })
	g, c := r.mint(t, "gh:acme/docs/contents:write")
	for _, url := range []string{r.hub.URL + "/repos/acme/docs", r.hub.Git + "/acme/docs.git/info/refs?service=git-receive-pack"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err := r.Inject(t.Context(), req, provider.Target{Handle: c.Handle}); err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		res, err := r.trusting().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s answered %d", url, res.StatusCode)
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
