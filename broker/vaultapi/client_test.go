package vaultapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/broker/vaultapi/vaulttest"
)

func self(ctx context.Context, c *vaultapi.Client) error {
	return c.Do(ctx, func(ctx context.Context, c *api.Client) error {
		_, err := c.Auth().Token().LookupSelfWithContext(ctx)
		return err
	})
}

func client(t *testing.T, c vaultapi.Config) *vaultapi.Client {
	t.Helper()
	out, err := vaultapi.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAppRole(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	if err := self(t.Context(), client(t, vaultapi.Config{Address: s.Address, Auth: s.AppRole(t, "default")})); err != nil {
		t.Error(err)
	}
	bad := s.AppRole(t, "default")
	bad.SecretIDFile = vaulttest.File(t, "canary-secret-id")
	if err := self(t.Context(), client(t, vaultapi.Config{Address: s.Address, Auth: bad})); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a wrong secret id = %v", err)
	}
}

// TestWrappedSecretID: a secret id arrives wrapped. The client does not unwrap a wrapping token with
// another creation path, because an attacker who replaced the token would choose the identity with
// which the broker logs in.
func TestWrappedSecretID(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	auth := s.AppRole(t, "default")
	at := "auth/" + auth.Mount + "/role/broker/secret-id"
	wrap := func(path string, data map[string]any) string {
		t.Helper()
		c, err := s.Root.Clone()
		if err != nil {
			t.Fatal(err)
		}
		c.SetToken("root")
		c.SetWrappingLookupFunc(func(string, string) string { return "60s" })
		out, err := c.Logical().WriteWithContext(t.Context(), path, data)
		if err != nil {
			t.Fatal(err)
		}
		return out.WrapInfo.Token
	}
	auth.SecretIDPath, auth.SecretIDFile = at, vaulttest.File(t, wrap(at, nil))
	c := client(t, vaultapi.Config{Address: s.Address, Auth: auth})
	if err := self(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	// A second broker finds it opened.
	if err := self(t.Context(), client(t, vaultapi.Config{Address: s.Address, Auth: auth})); err == nil {
		t.Error("one wrapping token was opened twice")
	}
	swapped := auth
	foreign := wrap("sys/wrapping/wrap", map[string]any{"secret_id": "attacker"})
	swapped.SecretIDFile = vaulttest.File(t, foreign)
	if err := self(t.Context(), client(t, vaultapi.Config{Address: s.Address, Auth: swapped})); err == nil || !strings.Contains(err.Error(), "replaced by an attacker") {
		t.Errorf("a swapped wrapping token = %v", err)
	}
	if _, err := s.Root.Logical().UnwrapWithContext(t.Context(), foreign); err != nil {
		t.Errorf("it was opened all the same: %v", err)
	}
}

// fake counts logins and lets each token live for so many calls.
type fake struct {
	mu     sync.Mutex
	logins int
	lives  map[string]int
	seen   atomic.Pointer[http.Header]
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := r.Header.Clone()
	f.seen.Store(&h)
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/login") {
		f.logins++
		token := "t" + strings.Repeat("x", f.logins)
		f.lives[token] = 3
		_, _ = w.Write([]byte(`{"auth":{"client_token":"` + token + `","lease_duration":3600}}`))
		return
	}
	token := r.Header.Get("X-Vault-Token")
	if f.lives[token] == 0 {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"errors":["permission denied"]}`))
		return
	}
	f.lives[token]--
	_, _ = w.Write([]byte(`{"data":{}}`))
}

func TestLogsInAgainOnce(t *testing.T) {
	t.Parallel()
	f := &fake{lives: map[string]int{}}
	s := httptest.NewServer(f)
	defer s.Close()
	c := client(t, vaultapi.Config{
		Address: s.URL, Namespace: "team/a", Auth: vaultapi.Auth{Method: "jwt", Mount: "jwt-ci", Role: "ebb", JWTFile: vaulttest.File(t, "a.b.c")},
	})
	for range 10 {
		if err := self(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if f.logins < 2 || f.logins > 5 {
		t.Errorf("%d logins for 10 calls with tokens of 3", f.logins)
	}
	if got := f.seen.Load().Get("X-Vault-Namespace"); got != "team/a" {
		t.Errorf("namespace %q", got)
	}
	f.mu.Lock()
	f.logins, f.lives = 0, map[string]int{} // every token dies
	f.mu.Unlock()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { _ = self(t.Context(), c) })
	}
	wg.Wait()
	if f.logins > 16 {
		t.Errorf("%d logins for 16 callers", f.logins)
	}
}

// Nothing of the environment of the process decides where secrets go.
func TestEnvironmentDoesNotDecide(t *testing.T) {
	f := &fake{lives: map[string]int{}}
	s := httptest.NewServer(f)
	defer s.Close()
	t.Setenv("VAULT_ADDR", "http://127.0.0.1:1")
	t.Setenv("VAULT_TOKEN", "of-somebody")
	t.Setenv("VAULT_NAMESPACE", "other")
	t.Setenv("VAULT_AGENT_ADDR", "http://127.0.0.1:1")
	c := client(t, vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "jwt", Role: "ebb", JWTFile: vaulttest.File(t, "a.b.c")}})
	if err := self(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if h := f.seen.Load(); h.Get("X-Vault-Token") == "of-somebody" || h.Get("X-Vault-Namespace") != "" {
		t.Errorf("the server saw %v", *h)
	}
}

// TestNothingIsDoneTwiceForAForeign403: a 403 from a proxy does not prove that Vault did
// nothing, so the client does not repeat the call.
func TestNothingIsDoneTwiceForAForeign403(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "token/create") {
			made.Add(1)
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<html>blocked"))
	}))
	defer s.Close()
	c := client(t, vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "me")}})
	err := c.Do(t.Context(), func(ctx context.Context, c *api.Client) error {
		_, err := c.Auth().Token().CreateWithContext(ctx, &api.TokenCreateRequest{})
		return err
	})
	if err == nil || made.Load() != 1 {
		t.Errorf("asked %d times, %v", made.Load(), err)
	}
}

// An answer without anything in it is none, and no reason to fall over.
func TestAnswersWithNothingInThem(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer s.Close()
	wrapped := vaultapi.Auth{Method: "approle", RoleID: "r", SecretIDFile: vaulttest.File(t, "w"), SecretIDPath: "auth/approle/role/ebb/secret-id"}
	for _, auth := range []vaultapi.Auth{wrapped, {Method: "approle", RoleID: "r", SecretIDFile: vaulttest.File(t, "s")}} {
		if err := self(t.Context(), client(t, vaultapi.Config{Address: s.URL, Auth: auth})); err == nil {
			t.Error("nobody is logged in and all is well")
		}
	}
}

// The file of a token or a JWT is read at each login: replacing it is enough.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	f := &fake{lives: map[string]int{"first": 2, "second": 100}}
	s := httptest.NewServer(f)
	defer s.Close()
	path := filepath.Join(t.TempDir(), "token")
	write := func(v string) {
		if err := os.WriteFile(path, []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	c := client(t, vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: path}, Timeout: 20 * time.Second})
	if err := self(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	write("second")
	for range 4 {
		if err := self(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoRedirectIsFollowed: the client follows no redirect. Otherwise a machine that answers in place
// of the server could make the client send the broker's token to another host.
func TestNoRedirectIsFollowed(t *testing.T) {
	t.Setenv("VAULT_DISABLE_REDIRECTS", "false")
	var stolen atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stolen.Add(1)
		_, _ = w.Write([]byte(`{"data":{}}`))
	}))
	defer thief.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+"/v1/x", status)
		}))
		defer s.Close()
		c := client(t, vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "canary")}})
		as, err := c.As(secret.New("canary-of-a-lease"))
		if err != nil {
			t.Fatal(err)
		}
		if err := self(t.Context(), c); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%d: %v", status, err)
		}
		if _, err := as.Logical().ReadWithContext(t.Context(), "database/creds/x"); err == nil {
			t.Errorf("%d: the token of a lease is taken elsewhere", status)
		}
	}
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d calls arrived where a redirect points", n)
	}
}

// Answers that are not Vault's: they end, and their text is in no error.
func TestForeignAnswersAreKeptOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("canary", 4096)
	for name, f := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(long)); err != nil {
					return
				}
			}
		},
		"endless refusal": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(long)); err != nil {
					return
				}
			}
		},
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>canary"))
		},
		"JSON of another": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":{"canary":1}}`))
		},
		"more than JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":["invalid accessor"]}canary`))
		},
	} {
		s := httptest.NewServer(f)
		defer s.Close()
		c := client(t, vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "me")}, Timeout: 20 * time.Second})
		err := self(t.Context(), c)
		if err == nil || strings.Contains(err.Error(), "canary") || vaultapi.Judged(err) || vaultapi.Says(err, "invalid accessor") {
			t.Errorf("%s: %.200s", name, err)
		}
		if strings.HasPrefix(name, "endless") && !errors.Is(err, provider.ErrTooLarge) {
			t.Errorf("%s: %.200s", name, err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"errors":["invalid accessor"]}`))
	}))
	defer s.Close()
	c := client(t, vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "me")}})
	if err := self(t.Context(), c); !vaultapi.Judged(err) || !vaultapi.Says(err, "invalid accessor") || vaultapi.Status(err) != http.StatusBadRequest {
		t.Errorf("Vault's own words: %v", err)
	}
}
