package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
)

// Over a Unix socket only the connection differs; all signed data is the same.
func TestSocket(t *testing.T) {
	t.Parallel()
	f, key := newFake(t, "sbx_1", time.Now)
	f.script = func(w http.ResponseWriter, r *http.Request, _ []byte) {
		if r.Host != "ebb.test" || r.TLS != nil {
			t.Errorf("reached as %q", r.Host)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"task_token":"tt","token_type":"DPoP","task_id":"tsk_1","client_id":"sbx_1"}`))
	}
	dir, err := os.MkdirTemp("", "ebb") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: f}}
	srv.Start()
	t.Cleanup(srv.Close)

	var outside []string
	hc := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		outside = append(outside, r.URL.String())
		return nil, errors.New("not from here")
	})}
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: issuer, Socket: path, HTTP: hc}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := s.EnrolEvidence(t.Context(), "tsk_1", "box", ""); err != nil || e.ClientID != "sbx_1" || len(outside) != 0 {
		t.Fatalf("%+v, %v, outside %v", e, err, outside)
	}

	// The socket is for ebb only: requests to a resource server do not use it.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://orders.test/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	cred := client.Credential{Type: "DPoP", Token: secret.New("at"), Resource: "https://orders.test"}
	if _, err := s.Transport(cred, nil).RoundTrip(req); err == nil || len(outside) != 1 {
		t.Errorf("%v, outside %v", err, outside)
	}
	if _, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: issuer, Socket: path, URL: issuer}, Key: key}); err == nil {
		t.Error("two places were taken")
	}
}
