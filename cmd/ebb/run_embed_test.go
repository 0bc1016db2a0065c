package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"ebb/attest/jose"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/web/client"
)

// TestStaleURL: on the port where an ebb of this user was listens somebody else. Nobody asks
// there, and no key of this user proves anything there.
func TestStaleURL(t *testing.T) {
	t.Parallel()
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	dir := t.TempDir()
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Chmod(dir, 0o700), // a directory of tests is as open as the umask lets it be
		os.WriteFile(filepath.Join(dir, urlFile), []byte(other.URL+"\n"), 0o600), os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600),
		keyfile.Write(filepath.Join(dir, operatorKey), keyfile.File{ClientID: "local-operator", Key: key}),
	); err != nil {
		t.Fatal(err)
	}
	c := &cli{environ: []string{"EBB_DATA_DIR=" + dir}}
	if c.answers(t.Context()) {
		t.Error("it is taken for this user's ebb")
	}
	if _, err := c.operator(operatorKey); exitOf(err) != exitUnavailable {
		t.Errorf("the local key is used: %v", err)
	}
	if peer, err := c.peer(); exitOf(err) != exitUnavailable {
		t.Errorf("%s, %v", peer.Issuer, err)
	}
	// Nor a key file that is named, nor a sandbox with its ticket.
	named := &cli{environ: c.environ, keyFile: filepath.Join(dir, operatorKey)}
	if _, err := named.operator(operatorKey); exitOf(err) != exitUnavailable {
		t.Errorf("a named key is used: %v", err)
	}
	if _, err := named.newSandbox(keyfile.File{Key: key}); exitOf(err) != exitUnavailable {
		t.Errorf("a sandbox asks there: %v", err)
	}
	there := &cli{environ: c.environ, url: other.URL}
	if peer, err := there.peer(); err != nil || peer.Issuer != other.URL {
		t.Errorf("who is told where: %s, %v", peer.Issuer, err)
	}
	unlock, err := lock(filepath.Join(dir, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	if !c.answers(t.Context()) {
		t.Error("with the lock held it is not found")
	}
	if _, err := c.operator(operatorKey); err != nil {
		t.Error(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if asked {
		t.Error("somebody else was asked")
	}
	// Who begins anew removes what the last one wrote.
	n := &node{}
	cfg, err := c.loadConfig()
	if err == nil {
		err = n.openData(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	if _, err := os.Stat(filepath.Join(dir, urlFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the address of the last one is there: %v", err)
	}
}
