package keyfile_test

import (
	"crypto"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, alg := range []jose.Alg{jose.ES256, jose.EdDSA} {
		key, err := client.NewKey(alg)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "a.key")
		want := keyfile.File{ClientID: "sbx_1", TaskID: "tsk_1", Key: key}
		if err := keyfile.Write(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := keyfile.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.ClientID != want.ClientID || got.TaskID != want.TaskID || !got.Key.(interface{ Equal(crypto.PrivateKey) bool }).Equal(key) {
			t.Errorf("%s: got %v", alg, got)
		}
		if err := keyfile.Write(path, want); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second Write says %v", err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	key, err := client.NewKey(jose.EdDSA)
	if err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "good.key")
	if err := keyfile.Write(good, keyfile.File{Key: key}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"empty":      "",
		"no PEM":     "hello",
		"public":     strings.ReplaceAll(string(text), "PRIVATE", "PUBLIC"),
		"truncated":  string(text[:60]),
		"two keys":   string(text) + string(text),
		"old format": strings.ReplaceAll(string(text), "PRIVATE", "EC PRIVATE"),
	} {
		path := filepath.Join(t.TempDir(), "bad.key")
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keyfile.Read(path); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := os.Chmod(good, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := keyfile.Read(good); !errors.Is(err, secret.ErrOpen) {
		t.Errorf("a readable key file says %v", err)
	}
	if _, err := keyfile.Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing key file says %v", err)
	}
	if keyfile.Write(filepath.Join(t.TempDir(), "x"), keyfile.File{ClientID: "a\nb", Key: key}) == nil {
		t.Error("a line break in the id is accepted")
	}
}

func FuzzParse(f *testing.F) {
	key, _ := client.NewKey(jose.EdDSA)
	good := filepath.Join(f.TempDir(), "good.key")
	if err := keyfile.Write(good, keyfile.File{ClientID: "a", Key: key}); err != nil {
		f.Fatal(err)
	}
	text, _ := os.ReadFile(good)
	f.Add(text)
	f.Add([]byte("client_id: x\n-----BEGIN PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := keyfile.Parse(text)
		if err == nil && got.Key == nil {
			t.Error("no error and no key")
		}
	})
}
