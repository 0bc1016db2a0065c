package main

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// After a change of the sealing key, values encrypted with the previous key can
// be read, also once that key is no longer configured.
func TestSealingKeyMoves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite://" + filepath.Join(dir, databaseFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // a test
	var secrets *secretstore.Store
	with := func(key, previous string) (broker.Sealer, error) {
		c := config.Config{DataDir: dir, Providers: []config.Provider{{Name: "ssh", Kind: "ssh"}}, Sealing: config.Sealing{Kind: "file"}}
		c.Sealing.Config, c.Sealing.Previous = json.RawMessage(key), json.RawMessage(previous)
		n := &node{log: slog.New(slog.DiscardHandler), url: "https://ebb.test"}
		s, err := n.openSealer(t.Context(), c, store)
		secrets = n.secrets
		return s, err
	}
	first, err := with("", "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := first.Seal("lse_1", secret.New("handle"))
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Put(t.Context(), "n", secret.New("secret")); err != nil {
		t.Fatal(err)
	}
	key := `{"path": "` + filepath.Join(dir, "new.pem") + `"}`
	if s, err := with(key, ""); err != nil || s.Err() == nil || s.KeyID() != "" {
		t.Errorf("a new place without the earlier one: %v", err)
	}
	for _, previous := range []string{`{"kind": "file"}`, ""} {
		s, err := with(key, previous)
		if err != nil || s.Err() != nil {
			t.Fatalf("previous %q: %v", previous, err)
		}
		if got, err := s.Open("lse_1", text); err != nil || got.Reveal() != "handle" {
			t.Errorf("previous %q: %v", previous, err)
		}
		if got, err := secrets.Get(t.Context(), "n"); err != nil || got.Reveal() != "secret" {
			t.Errorf("previous %q: %v", previous, err)
		}
		if err := secrets.Reseal(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{`{"knd": "file"}`, `{}`, `{"kind": "file", "config": {"pth": "x"}}`, `{"kind": "file", "config": []}`, `[]`} {
		if _, err := with(key, bad); err == nil {
			t.Errorf("previous %s is accepted", bad)
		}
	}
}
