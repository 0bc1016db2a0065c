package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The built binary names the required scopes, in the challenge and in the
// metadata to which the challenge refers.
func TestMCPNamesScopes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	ticket := s.ticket()
	cmd := s.command("mcp", "--key", "sandbox.key", "--listen", "127.0.0.1:0", "--require-scope", "mcp:tools:call", "--require-scope", "mcp:tools:list",
		"--server-id", "mcp-server", "--server-key", "sandbox.key")
	cmd.Env = append(cmd.Env, "EBB_TICKET="+ticket)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGINT); _ = cmd.Wait() })
	line, err := bufio.NewReader(said).ReadString('\n')
	at, found := strings.CutPrefix(strings.TrimSpace(line), "ebb: MCP at ")
	if err != nil || !found {
		t.Fatalf("it said %q, %v", line, err)
	}
	resp, err := http.Post(at, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	about := strings.Replace(at, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1)
	challenge := resp.Header.Get("WWW-Authenticate")
	if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(challenge, `, scope="mcp:tools:call mcp:tools:list", `) || !strings.Contains(challenge, `resource_metadata="`+about+`"`) {
		t.Errorf("%d %s", resp.StatusCode, challenge)
	}
	if resp, err = http.Get(about); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var metadata struct {
		Scopes []string `json:"scopes_supported"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&metadata); err != nil || !slices.Equal(metadata.Scopes, []string{"mcp:tools:call", "mcp:tools:list"}) {
		t.Errorf("%+v, %v", metadata, err)
	}
}

// Over TLS client certificates are requested, to which tokens may be bound (RFC
// 8705).
func TestMCPAsksForCertificates(t *testing.T) {
	t.Parallel()
	cert, certFile, keyFile := selfSigned(t)
	m := mcpFlags{listen: "127.0.0.1:0", cert: certFile, key: keyFile, scope: []string{"mcp:tools:call"}, serverID: "mcp-server", serverKey: keyFile}
	tc, err := m.check(false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- serveMCP(ctx, l, tc, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.PeerCertificates) == 0 {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
	}()
	for want, certs := range map[int][]tls.Certificate{http.StatusOK: {cert}, http.StatusUnauthorized: nil} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: certs, InsecureSkipVerify: true}, DisableKeepAlives: true}}
		resp, err := client.Get("https://" + l.Addr().String() + "/mcp")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with %d certificates: %d, want %d", len(certs), resp.StatusCode, want)
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
