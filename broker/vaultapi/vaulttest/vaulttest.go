package vaulttest

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/vaultapi"
)

// Server is a Vault that tests may change. Other tests share it, so names in it are random.
type Server struct {
	Address string
	Root    *api.Client
}

// New returns the server of EBB_TEST_VAULT (its URL; the root token is "root").
func New(t testing.TB) *Server {
	t.Helper()
	address := counterpart.Need(t, "EBB_TEST_VAULT")
	c := api.DefaultConfig()
	c.Address = address
	root, err := api.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	root.SetToken("root")
	return &Server{Address: address, Root: root}
}

// Name returns a new random name that begins with what.
func (s *Server) Name(what string) string { return what + "-" + strings.ToLower(rand.Text())[:12] }

// Write writes data to path with the root token.
func (s *Server) Write(t testing.TB, path string, data map[string]any) *api.Secret {
	t.Helper()
	out, err := s.Root.Logical().WriteWithContext(t.Context(), path, data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// Mount mounts an engine under a new name and returns the name.
func (s *Server) Mount(t testing.TB, kind string) string {
	t.Helper()
	path := s.Name(kind)
	if err := s.Root.Sys().MountWithContext(t.Context(), path, &api.MountInput{Type: kind}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Root.Sys().Unmount(path) })
	return path
}

// Policy writes a policy under a new name and returns the name.
func (s *Server) Policy(t testing.TB, what, rules string) string {
	t.Helper()
	name := s.Name(what)
	if err := s.Root.Sys().PutPolicyWithContext(t.Context(), name, rules); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Root.Sys().DeletePolicy(name) })
	return name
}

// AppRole returns a login method for a broker with the given policies.
func (s *Server) AppRole(t testing.TB, policies ...string) vaultapi.Auth {
	t.Helper()
	mount := s.Name("approle")
	if err := s.Root.Sys().EnableAuthWithOptionsWithContext(t.Context(), mount, &api.EnableAuthOptions{Type: "approle"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Root.Sys().DisableAuth(mount) })
	at := "auth/" + mount + "/role/broker"
	s.Write(t, at, map[string]any{"token_policies": policies, "token_no_default_policy": false, "token_ttl": "10m"})
	id, err := s.Root.Logical().ReadWithContext(t.Context(), at+"/role-id")
	if err != nil {
		t.Fatal(err)
	}
	secret := s.Write(t, at+"/secret-id", nil)
	return vaultapi.Auth{
		Method: "approle", Mount: mount, RoleID: id.Data["role_id"].(string), //nolint:forcetypeassert // a test
		SecretIDFile: File(t, secret.Data["secret_id"].(string)), //nolint:forcetypeassert // a test
	}
}

// File writes a secret to a file that only its owner can read, and returns its path.
func File(t testing.TB, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
