package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

const sshOptions = `{"groups": {"web": {"logins": ["deploy"]}}, "krl": {"refresh": "60s"}}`

// An ebb with SSH providers serves CA keys and revocation lists from its first
// response.
func TestSSHHostsFetchFromARunningEbb(t *testing.T) {
	file := filepath.Join(t.TempDir(), "krl")
	withFile := strings.Replace(sshOptions, `"60s"`, `"60s", "file": "`+file+`"`, 1)
	e, err := embed(t.Context(), embedding{Providers: []config.Provider{
		{Name: "ssh", Kind: "ssh", Resource: "https://a.example", Config: []byte(withFile)}, {Name: "bastion", Kind: "ssh", Resource: "https://b.example", Config: []byte(sshOptions)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	}()
	get := func(path string) (int, string) {
		r, err := http.Get(e.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	seen := map[string]bool{}
	for _, name := range []string{"ssh", "bastion"} {
		code, body := get("/v1/ssh/ca?provider=" + name)
		if code != 200 || !strings.HasPrefix(body, "ssh-ed25519 ") || !strings.HasSuffix(body, " ebb-"+name+"\n") || seen[body] {
			t.Errorf("CA of %s: %d %q", name, code, body)
		}
		seen[body] = true
		code, body = get("/v1/ssh/krl?provider=" + name)
		if l, err := krl.Parse([]byte(body)); code != 200 || err != nil || len(l.Certs) != 1 {
			t.Errorf("KRL of %s: %d %v", name, code, err)
		}
	}
	if code, _ := get("/v1/ssh/ca"); code != 400 {
		t.Errorf("a CA of several providers: %d", code)
	}
	if code, body := get("/v1/ssh/known_hosts?host=web-1.example.com"); code != 400 {
		t.Errorf("a host of several providers: %d %s", code, body)
	}
	_, body := get("/v1/ssh/krl")
	if l, err := krl.Parse([]byte(body)); err != nil || len(l.Certs) != 2 {
		t.Errorf("the list of all: %v", err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // written after the start
		b, err := os.ReadFile(file)
		if err == nil {
			_, err = krl.Parse(b)
		}
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(e.dir, "data", "keys", "ssh", "bastion")); err != nil {
		t.Error(err)
	}
}

// Checking a configuration creates no key and opens nothing.
func TestSSHConfigurationIsOnlyChecked(t *testing.T) {
	dir := t.TempDir()
	c := config.Config{DataDir: dir, Signing: config.Signing{KeysDir: filepath.Join(dir, "keys")}, Providers: []config.Provider{
		{Name: "ssh", Kind: "ssh", Config: []byte(sshOptions)}, {Name: "bad", Kind: "ssh", Config: []byte(`{"groups": {"web": {"login": ["deploy"]}}}`)},
		{Name: "worse", Kind: "ssh", Config: []byte(`{}`)},
	}}
	ps, err := kindProblems(c)
	if err != nil || len(ps) != 2 || !strings.Contains(ps[0].Wrong, "groups.web.login: there is no such key") || !strings.Contains(ps[1].Wrong, "krl.refresh is missing") {
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

func (brokenSSH) KnownHosts(stricturl.Host) ([]byte, bool) { return nil, false }

func TestNoHalfOfAList(t *testing.T) {
	h := sshHosts{"a": brokenSSH{}}
	var e *broker.Error
	if _, err := h.KRL(t.Context(), ""); !errors.As(err, &e) || e.Kind != broker.Unavailable || e.RetryAfter == 0 {
		t.Errorf("%v", err)
	}
	if _, err := h.Authorities(""); !errors.As(err, &e) || e.Kind != broker.Unavailable {
		t.Errorf("%v", err)
	}
	if _, err := h.KnownHosts("a", stricturl.Host{Name: "a.example.com", Port: 22}); !errors.As(err, &e) || e.Kind != broker.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := h.KRL(t.Context(), "b"); !errors.As(err, &e) || e.Kind != broker.NotFound {
		t.Errorf("%v", err)
	}
}
