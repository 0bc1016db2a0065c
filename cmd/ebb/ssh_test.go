package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ebb/broker"
	"ebb/broker/provider/ssh/krl"
	"ebb/cmd/ebb/internal/config"
)

const sshOptions = `{"groups": {"web": {"logins": ["deploy"]}}, "krl": {"refresh": "60s"}}`

// Checking a configuration makes no key and opens nothing.
func TestSSHConfigurationIsOnlyChecked(t *testing.T) {
	dir := t.TempDir()
	c := config.Config{DataDir: dir, Signing: config.Signing{KeysDir: filepath.Join(dir, "keys")}, Providers: []config.Provider{
		{Name: "ssh", Kind: "ssh", Config: []byte(sshOptions)}, {Name: "bad", Kind: "ssh", Config: []byte(`{"groups": {"web": {"login": ["deploy"]}}}`)},
		{Name: "worse", Kind: "ssh", Config: []byte(`{}`)},
	}}
	ps, err := kindProblems(c)
	if err != nil || len(ps) != 2 || !strings.Contains(ps[0].Wrong, `unknown field "login"`) || !strings.Contains(ps[1].Wrong, "krl.refresh is missing") {
		t.Errorf("%v %v", ps, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
}

type brokenSSH struct{}

func (brokenSSH) Authorities() ([]byte, error) { return nil, errors.New("no") }
func (brokenSSH) KRL(context.Context) (krl.List, error) {
	return krl.List{}, errors.New("database down")
}

func TestNoHalfOfAList(t *testing.T) {
	h := sshHosts{"a": brokenSSH{}}
	var e *broker.Error
	if _, err := h.KRL(t.Context(), ""); !errors.As(err, &e) || e.Kind != broker.Unavailable || e.RetryAfter == 0 {
		t.Errorf("%v", err)
	}
	if _, err := h.Authorities(""); !errors.As(err, &e) || e.Kind != broker.Unavailable {
		t.Errorf("%v", err)
	}
	if _, err := h.KRL(t.Context(), "b"); !errors.As(err, &e) || e.Kind != broker.NotFound {
		t.Errorf("%v", err)
	}
}
