package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/web/client"
)

// TestStaleURL: another program listens on the port of a stopped ebb. Commands
// send nothing there, and no key of this user authenticates there.
//
//ebb:invariant I6 Commands do not treat a program on the port of this user's stopped ebb as that ebb
//ebb:invariant I6 Commands present no keys, tickets or evidence to a program on the port of this user's stopped ebb
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
		os.Chmod(dir, 0o700), // the umask decides the mode of a test directory
		os.WriteFile(filepath.Join(dir, urlFile), []byte(other.URL+"\n"), 0o600), os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600),
		keyfile.Write(filepath.Join(dir, operatorKey), keyfile.File{ClientID: "local-operator", Key: key}),
	); err != nil {
		t.Fatal(err)
	}
	c := &cli{environ: []string{"EBB_DATA_DIR=" + dir}}
	if (runCommand{c}).answers(t.Context()) {
		t.Error("it is taken for this user's ebb")
	}
	if _, err := c.operator(operatorKey); exitOf(err) != exitUnavailable {
		t.Errorf("the local key is used: %v", err)
	}
	if peer, err := c.peer(); exitOf(err) != exitUnavailable {
		t.Errorf("%s, %v", peer.Issuer, err)
	}
	// Nor does a key file that is named, nor a sandbox with its ticket.
	named := &cli{environ: c.environ, keyFile: filepath.Join(dir, operatorKey)}
	if _, err := named.operator(operatorKey); exitOf(err) != exitUnavailable {
		t.Errorf("a named key is used: %v", err)
	}
	if _, err := (tokenCommands{named}).newSandbox(keyfile.File{Key: key}); exitOf(err) != exitUnavailable {
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
	if !(runCommand{c}).answers(t.Context()) {
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
	// A new ebb removes the URL of the previous one.
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
