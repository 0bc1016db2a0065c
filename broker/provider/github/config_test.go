package github_test

import (
	"crypto/rand"
	"crypto/rsa"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider/github"
)

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	good := newRig(t).config
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newRig(t).hub.WriteKey(filepath.Join(dir, "short"), short)
	key, err := os.ReadFile(good.PrivateKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*github.Config){
		"client_id is empty":        func(c *github.Config) { c.ClientID = "" },
		"private_key_file is empty": func(c *github.Config) { c.PrivateKeyFile = "" },
		"no such file":              func(c *github.Config) { c.PrivateKeyFile = filepath.Join(dir, "none") },
		"is not a PEM file":         func(c *github.Config) { c.PrivateKeyFile = file("text", "hunter2", 0o600) },
		"others can reach it":       func(c *github.Config) { c.PrivateKeyFile = file("open", string(key), 0o644) },
		"those of GitHub Apps are RSA": func(c *github.Config) {
			c.PrivateKeyFile = file("junk", "-----BEGIN RSA PRIVATE KEY-----\naGk=\n-----END RSA PRIVATE KEY-----\n", 0o600)
		},
		"shorter than 2048":             func(c *github.Config) { c.PrivateKeyFile = filepath.Join(dir, "short") },
		"installations is empty":        func(c *github.Config) { c.Installations = nil },
		"not an owner":                  func(c *github.Config) { c.Installations = map[string]int64{"acme": 0} },
		`"ac/me": 1 is not an owner`:    func(c *github.Config) { c.Installations = map[string]int64{"acme": 11, "octo": 12, "ac/me": 1} },
		"permissions is empty":          func(c *github.Config) { c.Permissions = nil },
		`no permission "content"`:       func(c *github.Config) { c.Permissions = map[string]string{"content": "read"} },
		"contents has the levels read,": func(c *github.Config) { c.Permissions = map[string]string{"contents": "admin"} },
		"a user or an enterprise":       func(c *github.Config) { c.Permissions = map[string]string{"gpg_keys": "read"} },
		`"web": 5 is not <owner`:        func(c *github.Config) { c.Repositories = map[string]int64{"web": 5} },
		`"other/web": 5 is not <owner`:  func(c *github.Config) { c.Repositories = map[string]int64{"other/web": 5} },
		"have the same id":              func(c *github.Config) { c.Repositories = map[string]int64{"acme/web": 5, "acme/api": 5} },
		`"acme/front" is not <owner`:    func(c *github.Config) { c.Groups = map[string][]string{"acme/front": {"web"}} },
		`"acme/**" is not <owner`:       func(c *github.Config) { c.Groups = map[string][]string{"acme/**": {"web"}} },
		"must list 1 to 500":            func(c *github.Config) { c.Groups = map[string][]string{"acme/@front": {}} },
		"without its owner":             func(c *github.Config) { c.Groups = map[string][]string{"acme/@front": {"acme/web"}} },
		"and pinned_only is set":        func(c *github.Config) { c.PinnedOnly = true; c.Groups = map[string][]string{"acme/@front": {"docs"}} },
		"api_url must be an https URL":  func(c *github.Config) { c.APIURL = "http://git.example.com/api/v3" },
		"git_url must be an https URL":  func(c *github.Config) { c.GitURL = "https://git.example.com?x" },
		"api_version must be a date":    func(c *github.Config) { c.APIVersion = "latest" },
		"token_format must be opaque":   func(c *github.Config) { c.TokenFormat = "short" },
		"timeout_seconds must be":       func(c *github.Config) { c.TimeoutSeconds = 600 },
		"ca_file":                       func(c *github.Config) { c.CAFile = file("ca", "x", 0o600) },
		"a clock and a logger":          func(c *github.Config) { c.Now = nil },
	} {
		c := good
		change(&c)
		_, err := github.New(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := github.New(github.Config{Now: good.Now, Logger: good.Logger}); err == nil || strings.Count(err.Error(), "is empty") != 4 {
		t.Errorf("not all problems at once: %v", err)
	}
}
