package api_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// hosts returns fixed data.
type hosts struct {
	krl  atomic.Pointer[[]byte]
	fail atomic.Bool
}

func (h *hosts) Authorities(name string) ([]byte, error) {
	if name == "other" {
		return nil, broker.E(broker.NotFound, "There is no such SSH provider.", nil)
	}
	return []byte("ssh-ed25519 AAAA " + name + "\n"), nil
}

func (h *hosts) KnownHosts(name string, host stricturl.Host) ([]byte, error) {
	if host.Name != "web-1.example.com" {
		return nil, broker.E(broker.NotFound, "There is no such host.", nil)
	}
	return []byte(host.String() + " " + name + "\n"), nil
}

func (h *hosts) KRL(context.Context, string) ([]byte, error) {
	if h.fail.Load() {
		return nil, broker.E(broker.Unavailable, "The revocation list cannot be made now.", errors.New("dial tcp: secret-host"))
	}
	return *h.krl.Load(), nil
}

func TestSSHHostsNeedNoCredentials(t *testing.T) {
	t.Parallel()
	h := &hosts{}
	one, two := []byte("SSHKRL\n\x00one"), []byte("SSHKRL\n\x00two")
	h.krl.Store(&one)
	r := newRig(t, options{ssh: h})
	a := r.do(t, r.request(http.MethodGet, "/v1/ssh/krl", nil))
	tag := a.header.Get("ETag")
	if a.status != 200 || a.body != string(one) || tag == "" || a.header.Get("Cache-Control") != "public, no-cache" || a.header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("%d %q %v", a.status, a.body, a.header)
	}
	again := r.request(http.MethodGet, "/v1/ssh/krl", nil)
	again.Header.Set("If-None-Match", tag)
	if a := r.do(t, again); a.status != 304 || a.body != "" {
		t.Errorf("unchanged: %d %q", a.status, a.body)
	}
	h.krl.Store(&two)
	if a := r.do(t, again); a.status != 200 || a.body != string(two) || a.header.Get("ETag") == tag {
		t.Errorf("changed: %d %q", a.status, a.body)
	}
	h.fail.Store(true)
	if a := r.do(t, again); a.status != 503 || a.header.Get("ETag") != "" {
		t.Errorf("without the record: %d %v", a.status, a.header)
	}
	if a := r.do(t, r.request(http.MethodGet, "/v1/ssh/ca?provider=ssh", nil)); a.status != 200 || a.body != "ssh-ed25519 AAAA ssh\n" || a.header.Get("ETag") == "" {
		t.Errorf("CA: %d %q", a.status, a.body)
	}
	if a := r.do(t, r.request(http.MethodGet, "/v1/ssh/known_hosts?provider=ssh&host=web-1.example.com", nil)); a.status != 200 || a.body != "web-1.example.com:22 ssh\n" {
		t.Errorf("known hosts: %d %q", a.status, a.body)
	}
	for path, want := range map[string]int{
		"/v1/ssh/known_hosts": 400, "/v1/ssh/known_hosts?host=127.0.0.1": 400, "/v1/ssh/known_hosts?host=*.example.com": 400, "/v1/ssh/known_hosts?host=web-2.example.com": 404,
		"/v1/ssh/ca?provider=other": 404, "/v1/ssh/ca?provider=a&provider=b": 400, "/v1/ssh/ca?provider=": 400, "/v1/ssh/krl?x=1": 400, "/v1/ssh/ca?provider=a%0ab": 400,
	} {
		if a := r.do(t, r.request(http.MethodGet, path, nil)); a.status != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := r.do(t, r.request(http.MethodPost, "/v1/ssh/krl", nil)); a.status != 405 {
		t.Errorf("POST: %d", a.status)
	}
	none := newRig(t, options{})
	for _, path := range []string{"/v1/ssh/ca", "/v1/ssh/krl", "/v1/ssh/known_hosts?host=web-1.example.com"} {
		if a := none.do(t, none.request(http.MethodGet, path, nil)); a.status != 404 {
			t.Errorf("without an SSH provider %s: %d", path, a.status)
		}
	}
}
