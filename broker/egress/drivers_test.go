package egress_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/awsapi/awstest"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
	"github.com/ebb-broker/ebb/broker/provider/oauth"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// boxFor returns a sandbox whose task may request everything from a provider.
func (b *bed) boxFor(t *testing.T, ceiling string) *sandbox {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet(ceiling)
	return b.boxOf(t, b.Open(t, spec))
}

// over completes the task of a sandbox, and waits until its credentials are revoked at the
// provider.
func (x *sandbox) over(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = x.b.Broker.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	if _, err := x.b.Broker.CompleteTask(t.Context(), x.b.Principals[brokertest.Runner], x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
}

// A GitHub token is issued when the sandbox requests it. It is sent with requests of the REST API
// and git, for its repository and permissions, and is revoked at GitHub when the task has ended.
// The requests follow GitHub's published description.
func TestGitHub(t *testing.T) {
	t.Parallel()
	hub := githubtest.New(t, githubtest.Config{Now: time.Now, Prefix: "/api/v3"})
	hub.Put(githubtest.Repository{ID: 1, Owner: "acme", Name: "web"}, githubtest.Repository{ID: 2, Owner: "acme", Name: "api"})
	may := map[string]string{"metadata": "read", "contents": "write", "issues": "write"}
	hub.Install(githubtest.Installation{ID: 11, Owner: "acme", Permissions: may, Repositories: []int64{1, 2}})
	key := filepath.Join(t.TempDir(), "app.pem")
	hub.Trust(githubtest.Key(t))
	hub.WriteKey(key, githubtest.Key(t))
	at := "https://" + hubName + hub.Git[strings.LastIndexByte(hub.Git, ':'):]
	driver, err := github.New(github.Config{
		ClientID: "Iv23liEbbTest00000001", PrivateKeyFile: key, Installations: map[string]int64{"acme": 11}, Permissions: may, Repositories: map[string]int64{"acme/web": 1, "acme/api": 2},
		APIURL: at + "/api/v3", GitURL: at, CAFile: hub.CAFile(), TimeoutSeconds: 60, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	b := newBedOn(t, echo, func(c *brokertest.Config) {
		c.Providers["gh"] = broker.Provider{Driver: driver, Kind: "github", Resource: at + "/"}
	})
	b.leadsHere(hubName)
	x := b.boxFor(t, "gh:**:*")
	if n := hub.Living(); n != 0 {
		t.Fatalf("%d tokens before anybody asked", n)
	}
	p, c := x.placeholder(t, "gh:acme/web/issues:read gh:acme/web/contents:read"), x.client(t, true)
	for path, want := range map[string]int{
		"/api/v3/repos/acme/web/issues": http.StatusOK, "/acme/web.git/info/refs?service=git-upload-pack": http.StatusOK,
		"/api/v3/repos/acme/api/issues": http.StatusForbidden, "/acme/web.git/info/refs?service=git-receive-pack": http.StatusForbidden, "/api/v3/installation/repositories": http.StatusForbidden,
	} {
		for range 2 {
			if res, body := send(t, c, "GET", at+path, "", "Authorization", "Bearer "+p); res.StatusCode != want {
				t.Errorf("%s: %d %s", path, res.StatusCode, body)
			}
		}
	}
	if _, body := send(t, c, "GET", at+"/acme/web.git/info/refs?service=git-receive-pack&access_token="+p, ""); !strings.Contains(body, "Each of the scopes gh:acme/web/refs/heads/**:create, gh:acme/web/contents:write covers it. ") {
		t.Errorf("a push: %s", body)
	}
	if n := hub.Living(); n != 1 {
		t.Errorf("%d tokens live for one lease", n)
	}
	x.over(t)
	until(t, "its token is dead", func() bool { return hub.Living() == 0 })
	calls := hub.Calls()
	count := func(method, end string) (n int) {
		for _, c := range calls {
			if c.Method == method && strings.HasSuffix(c.Path, end) {
				n++
			}
		}
		return n
	}
	if count("POST", "/access_tokens") != 1 || count("GET", "/repos/acme/web/issues") != 2 || count("GET", "/info/refs") != 2 || count("GET", "/repos/acme/api/issues") != 0 {
		t.Errorf("arrived: %+v", calls)
	}
}

// authority is an authorization server (RFC 6749) and the API that accepts its tokens.
type authority struct {
	t  *testing.T
	mu sync.Mutex

	minted, revoked []string
}

// token is the token endpoint: client credentials (section 4.4), by client_secret_basic.
func (a *authority) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	if r.Method != "POST" || id != "ebb" || secret != "canary-of-the-client" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "files.read" || r.URL.RawQuery != "" {
		a.t.Errorf("at the token endpoint: %s %v", r.Method, r.Form)
	}
	text := "at-canary-" + rand.Text()
	a.mu.Lock()
	a.minted = append(a.minted, text)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": text, "token_type": "Bearer", "expires_in": 600, "scope": "files.read"})
}

// revoke is the revocation endpoint (RFC 7009).
func (a *authority) revoke(_ http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	a.mu.Lock()
	defer a.mu.Unlock()
	if text := r.FormValue("token"); id != "ebb" || secret != "canary-of-the-client" || !slices.Contains(a.minted, text) {
		a.t.Errorf("at the revocation endpoint: %v", r.Form)
	} else if !slices.Contains(a.revoked, text) {
		a.revoked = append(a.revoked, text)
	}
}

// use is the API: it responds with the token of the request.
func (a *authority) use(w http.ResponseWriter, r *http.Request) {
	text, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.minted, text) || slices.Contains(a.revoked, text) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("X-Used", text)
	_, _ = w.Write([]byte("used " + text + " by " + a.minted[0]))
}

func (a *authority) counts() (minted, revoked int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.minted), len(a.revoked)
}

// A token of an authorization server is issued once for a lease, sent with each request of the
// lease, marked in responses, and revoked with the task.
func TestOAuth(t *testing.T) {
	t.Parallel()
	a := &authority{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/token", a.token)
	mux.HandleFunc("/revoke", a.revoke)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var host string
	b := newBedOn(t, a.use, func(c *brokertest.Config) {
		driver, err := oauth.New("files", oauth.Config{
			TokenEndpoint: server.URL + "/token", RevocationEndpoint: server.URL + "/revoke",
			Client: oauth.Client{ID: "ebb", Auth: "client_secret_basic", SecretFile: awstest.SecretFile(t, "canary-of-the-client")},
			Grants: map[string]oauth.Grant{"drive": {Actions: map[string]string{"read": "files.read"}, Requests: &oauth.Requests{
				Hosts: []string{host}, Actions: map[string]stricturl.Rule{"read": {Methods: []string{"GET"}, Paths: []string{"/v1/files/*"}}},
			}}},
		}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Providers["files"] = broker.Provider{Driver: driver, Kind: "oauth", Resource: "https://" + host + "/"}
	}, func(s *httptest.Server) { host = "api.example.com:" + portOf(s) })
	x := b.boxFor(t, "files:**:*")
	p, c := x.placeholder(t, "files:drive:read"), x.client(t, true)
	for i := range 3 {
		res, body := send(t, c, "GET", "https://"+host+"/v1/files/a", "", "Authorization", "Bearer "+p)
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(body, "used [") || strings.Contains(body+res.Header.Get("X-Used"), "canary") {
			t.Errorf("request %d: %d %s %v", i, res.StatusCode, body, res.Header)
		}
	}
	if res, body := send(t, c, "GET", "https://"+host+"/v1/other", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusForbidden {
		t.Errorf("another path: %d %s", res.StatusCode, body)
	}
	if minted, revoked := a.counts(); minted != 1 || revoked != 0 {
		t.Errorf("%d minted, %d revoked", minted, revoked)
	}
	second := x.placeholder(t, "files:drive:read")
	if res, _ := send(t, c, "GET", "https://"+host+"/v1/files/a", "", "Authorization", "Bearer "+second); res.StatusCode != http.StatusOK {
		t.Errorf("a second lease: %d", res.StatusCode)
	}
	x.over(t)
	until(t, "both are revoked", func() bool { minted, revoked := a.counts(); return minted == 2 && revoked == 2 })
}

// portOf returns the port of a server that has not started.
func portOf(s *httptest.Server) string {
	at := s.Listener.Addr().String()
	return at[strings.LastIndexByte(at, ':')+1:]
}
