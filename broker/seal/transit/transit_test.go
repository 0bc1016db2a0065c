package transit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/seal/sealtest"
	"github.com/ebb-broker/ebb/broker/seal/transit"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/broker/vaultapi/vaulttest"
)

const id, another = sealtest.ID, sealtest.Another

var key = sealtest.DataKey()

func TestTransit(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	mount := s.Mount(t, "transit")
	s.Write(t, mount+"/keys/ebb", map[string]any{"type": "aes256-gcm96"})
	s.Write(t, mount+"/keys/other", map[string]any{"type": "aes256-gcm96"})
	policy := s.Policy(t, "seal", `path "`+mount+`/encrypt/ebb" { capabilities = ["update"] }
		path "`+mount+`/decrypt/ebb" { capabilities = ["update"] }
		path "`+mount+`/keys/ebb" { capabilities = ["read"] }`)
	now := time.Now()
	w, err := transit.New(transit.Config{Config: vaultapi.Config{Address: s.Address, Auth: s.AppRole(t, policy)}, Mount: mount, Key: "ebb"}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := w.Wrap(t.Context(), id, key)
	if err != nil || strings.Contains(wrapped, "dddd") {
		t.Fatalf("Wrap = %v", err)
	}
	opens := func(text string) {
		t.Helper()
		if got, err := w.Unwrap(t.Context(), id, text); err != nil || string(got) != string(key) {
			t.Errorf("Unwrap = %v", err)
		}
	}
	opens(wrapped)
	if w.Stale(t.Context(), wrapped) {
		t.Error("a text that was just wrapped is stale")
	}
	if _, err := w.Unwrap(t.Context(), another, wrapped); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("under another id: %v", err)
	}
	s.Write(t, mount+"/keys/ebb/rotate", nil)
	now = now.Add(time.Hour)
	if !w.Stale(t.Context(), wrapped) {
		t.Error("after a rotation it is not stale")
	}
	opens(wrapped)
	again, err := w.Wrap(t.Context(), id, key)
	if err != nil || w.Stale(t.Context(), again) {
		t.Errorf("wrapped anew: %v", err)
	}
	other := s.Write(t, mount+"/encrypt/other", map[string]any{"plaintext": "AAAA"}).Data["ciphertext"].(string) //nolint:forcetypeassert // a test
	for _, bad := range []string{other, "", "file:x:y", "vault:v1:", "vault:v1:AAAA", wrapped + "A", "vault:v99:" + strings.TrimPrefix(wrapped, "vault:v1:")} {
		if _, err := w.Unwrap(t.Context(), id, bad); !errors.Is(err, seal.ErrNoKey) {
			t.Errorf("Unwrap(%.20q) = %v", bad, err)
		}
	}
	s.Write(t, mount+"/keys/ebb/config", map[string]any{"min_decryption_version": 2})
	if _, err := w.Unwrap(t.Context(), id, wrapped); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("an archived version = %v", err)
	}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	s := vaulttest.New(t)
	mount := s.Mount(t, "transit")
	for _, name := range []string{"ebb", "other"} {
		s.Write(t, mount+"/keys/"+name, map[string]any{"type": "aes256-gcm96"})
	}
	policy := s.Policy(t, "seal", `path "`+mount+`/*" { capabilities = ["read", "update"] }`)
	auth := s.AppRole(t, policy)
	open := func(key string) seal.Wrapper {
		w, err := transit.New(transit.Config{Config: vaultapi.Config{Address: s.Address, Auth: auth}, Mount: mount, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := open("ebb")
	sealtest.Run(t, sealtest.Suite{Wrapper: w, Other: open("other"), Rotate: func(t *testing.T) seal.Wrapper {
		s.Write(t, mount+"/keys/ebb/rotate", nil)
		return open("ebb")
	}})
	s.Write(t, mount+"/keys/ebb/config", map[string]any{"deletion_allowed": true})
	if _, err := s.Root.Logical().DeleteWithContext(t.Context(), mount+"/keys/ebb"); err != nil {
		t.Fatal(err)
	}
	if err := open("ebb").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "ebb") {
		t.Errorf("the key is deleted: %v", err)
	}
}

// With an engine that answers nonsense, sealing and opening fail, and the key does not count as
// lost.
func TestNonsense(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"garbage":       func(w http.ResponseWriter) { _, _ = w.Write([]byte("{{{")) },
		"empty":         func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) },
		"form":          func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"data":{"ciphertext":"x","plaintext":"%%"}}`)) },
		"500":           func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"400 of nobody": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"404 of nobody": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"a page": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("<html>invalid ciphertext, encryption key not found"))
		},
		"another 400": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"errors":["missing client token"]}`))
		},
		"no such path": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":["no handler for route"]}`))
		},
		"sealed": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		defer s.Close()
		w, err := transit.New(transit.Config{
			Config: vaultapi.Config{Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "canary")}}, Key: "ebb",
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := w.Wrap(t.Context(), id, key); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: Wrap = %q, %v", name, text, err)
		}
		if _, err := w.Unwrap(t.Context(), id, "vault:v1:AAAA"); err == nil || errors.Is(err, seal.ErrNoKey) {
			t.Errorf("%s: Unwrap = %v", name, err)
		}
		if w.Stale(t.Context(), "vault:v1:AAAA") {
			t.Errorf("%s: stale", name)
		}
		if err := w.Check(t.Context()); (err != nil) != (name == "no such path") { // Vault's own 404
			t.Errorf("%s: Check = %v", name, err)
		}
	}
	for _, c := range []transit.Config{{}, {Key: "a/b"}, {Config: vaultapi.Config{Address: "https://vault.test", Auth: vaultapi.Auth{Method: "token", TokenFile: "/x"}}, Key: "k", Mount: ".."}} {
		if _, err := transit.New(c, nil); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
