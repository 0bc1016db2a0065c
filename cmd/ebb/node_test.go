package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// TestShutdownEndsNoSandbox: while running requests delay the stop of ebb, a
// sandbox whose control connection has just broken cannot reconnect, and does
// not lose its task.
func TestShutdownEndsNoSandbox(t *testing.T) {
	t.Parallel()
	const grace = 6 * time.Second // less than the time for running requests
	people, keys, err := withKeys([]broker.Principal{{ID: "runner", Roles: []broker.Role{broker.RoleRunner}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed(t.Context(), embedding{People: people, Providers: []config.Provider{{Name: "local", Kind: "jwt", Resource: "https://local.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	}()
	task, breaks := held(t, e, keys["runner"], grace)
	inFlight := halfRequest(t, e.url)
	breaks()
	e.stop()
	for end := time.Now().Add(grace + time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got, err := e.node.broker.Task(t.Context(), people[0].Principal, task)
		if err != nil || got.State != broker.TaskOpen {
			t.Fatalf("the task is %s: %s, %v", got.State, got.Cause, err)
		}
	}
	if c, err := net.Dial("tcp", address(e.url)); err == nil {
		_ = c.Close()
		t.Error("the sandbox could have come back")
	}
	if err := inFlight.Close(); err != nil {
		t.Error(err)
	}
}

// held is the task of a sandbox with a control connection, and a function that
// breaks the connection.
func held(t *testing.T, e *embedded, runner jose.Signer, grace time.Duration) (taskID string, breaks func()) {
	t.Helper()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: e.url}, ClientID: "runner", Key: runner})
	if err != nil {
		t.Fatal(err)
	}
	task, ticket, err := o.Tasks.Open(t.Context(), wire.TaskSpec{Name: "n", Kind: "k", Owner: "o", TTL: 600, Ceiling: "local:a/**:*", Expect: wire.Expect{Attestor: "enroll"}, Ticket: true})
	if err != nil {
		t.Fatal(err)
	}
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: e.url}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enrol(t.Context(), ticket.Ticket); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- s.Hold(ctx, grace) }()
	auditor := broker.Principal{ID: "auditor", Roles: []broker.Role{broker.RoleAuditor}}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		es, err := e.node.broker.Entries(t.Context(), auditor, broker.EntryFilter{TaskID: task.ID, Kind: string(audit.SandboxHeld)})
		if err != nil || time.Now().After(end) {
			t.Fatalf("it is not held: %v", err)
		}
		for range es {
			return task.ID, func() { cancel(); <-over }
		}
	}
}

// halfRequest is a connection with a request that never ends, whose handler is
// reading the body: shutdown waits for it.
func halfRequest(t *testing.T, url string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write([]byte("POST /oauth2/token HTTP/1.1\r\nHost: " + address(url) +
		"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len("HTTP/1.1 100 Continue"))
	if _, err := io.ReadFull(c, first); err != nil || string(first) != "HTTP/1.1 100 Continue" {
		t.Fatalf("the request is not being read: %q, %v", first, err)
	}
	return c
}

func address(url string) string { return strings.TrimPrefix(url, "http://") }

// TestJWKSMaxAge: the key ring determines how long clients may cache the key
// set, so that a new key is in every cache before it signs.
func TestJWKSMaxAge(t *testing.T) {
	t.Parallel()
	e, err := embed(t.Context(), embedding{Environ: []string{"EBB_SIGNING_LEAD=4m"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	}()
	resp, err := http.Get(e.url + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	want := "public, max-age=120"
	if got := resp.Header.Get("Cache-Control"); resp.StatusCode != http.StatusOK || got != want {
		t.Errorf("status %d, Cache-Control %q; want %q", resp.StatusCode, got, want)
	}
}
