package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// farBed is an ebb that accepts sandboxes on other machines, its runner, and
// another runner.
type farBed struct {
	*embedded
	keys map[string]jose.Signer
	task wire.Task
}

func newFarBed(t *testing.T) *farBed {
	t.Helper()
	people, keys, err := withKeys([]broker.Principal{{ID: "runner", Roles: []broker.Role{broker.RoleRunner}}, {ID: "other", Roles: []broker.Role{broker.RoleRunner}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed(t.Context(), embedding{Environ: []string{"EBB_EGRESS_REMOTE=true"}, People: people, Providers: []config.Provider{{Name: "local", Kind: "jwt", Resource: "https://local.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	})
	b := &farBed{embedded: e, keys: keys}
	b.task, _, err = b.as(t, "runner").Tasks.Open(t.Context(), wire.TaskSpec{Name: "n", Kind: "k", Owner: "o", TTL: 600, Ceiling: "local:a/**:*", Expect: wire.Expect{Attestor: "enroll"}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *farBed) as(t *testing.T, id string) *client.Operator {
	t.Helper()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: b.url}, ClientID: id, Key: b.keys[id]})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestServeForwardsFarEndpoints: a sandbox on another machine uses the connections
// of its runner, and no other runner can open them, until its task ends.
//
//ebb:invariant I6 Only the runner of a task can forward connections of a sandbox on another machine, and only if the sandbox is registered for forwarding
func TestServeForwardsFarEndpoints(t *testing.T) {
	t.Parallel()
	b := newFarBed(t)
	runner := b.as(t, "runner")
	opened, err := runner.Endpoints.Open(t.Context(), b.task.ID, wire.EgressEndpointSpec{Identity: wire.EndpointByRunner})
	if err != nil || opened.Socket != "" || opened.State != wire.EndpointOpen {
		t.Fatal(opened, err)
	}
	if _, err := b.as(t, "other").Endpoints.Connect(t.Context(), opened); !client.IsKind(err, wire.KindNotFound) {
		t.Errorf("another runner: %v", err)
	}
	dir, err := os.MkdirTemp("", "ebb-far-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	listener, err := egress.NewListener(dir, coreEndpoint(opened), broker.EndpointBySocket, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- egress.Forwarder{Dial: func(ctx context.Context) (io.ReadWriteCloser, error) { return runner.Endpoints.Connect(ctx, opened) }}.Serve(ctx, listener)
	}()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	said := func() (out string, ended bool) {
		c, err := net.Dial("unix", listener.Socket())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, "GET /sandbox HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(c)
		return string(all), err == nil
	}
	for range 3 { // each on a connection of its own
		if out, ended := said(); !ended || !strings.Contains(out, b.task.ID) {
			t.Errorf("%q, ended: %v", out, ended)
		}
	}
	idle, err := runner.Endpoints.Connect(t.Context(), opened)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Tasks.Complete(t.Context(), b.task.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives its task")
	}
	if _, err := runner.Endpoints.Connect(t.Context(), opened); !client.IsKind(err, wire.KindNotFound) {
		t.Errorf("after the end: %v", err)
	}
	if out, _ := said(); !strings.Contains(out, " 503 ") {
		t.Errorf("the sandbox hears %q", out)
	}
}

// TestConnectHostile: a request that is not exactly the upgrade to the
// sandbox's egress endpoint is refused, and does not count against the
// endpoint's connections.
//
//ebb:invariant I6 A runner forwards a connection only with an exact upgrade request for this purpose and a proof that is valid for that request alone
//ebb:invariant I6 ebb closes a forwarded connection if the runner sends data on it before the 101 response
func TestConnectHostile(t *testing.T) {
	t.Parallel()
	b := newFarBed(t)
	runner := b.as(t, "runner")
	opened, err := runner.Endpoints.Open(t.Context(), b.task.ID, wire.EgressEndpointSpec{Identity: wire.EndpointByRunner})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	path := "/v1/tasks/" + b.task.ID + "/egress-endpoints/" + opened.ID + "/connect"
	token := b.accessToken(t, "runner")
	proof := func() string {
		p, err := dpop.NewProof(b.keys["runner"], http.MethodPost, b.url+path, token.Reveal(), "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const upgrade = "Connection: Upgrade\r\nUpgrade: ebb-egress\r\n"
	send := func(proof, head, behind string) (*http.Response, string) {
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: DPoP %s\r\nDPoP: %s\r\n%s\r\n%s", path, u.Host, token.Reveal(), proof, head, behind)
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return nil, err.Error()
		}
		if res.StatusCode != http.StatusSwitchingProtocols {
			return res, ""
		}
		_, _ = io.WriteString(c, "GET /sandbox HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
		all, _ := io.ReadAll(in)
		return res, string(all)
	}
	for range 2 { // more than the endpoint's maximum
		for _, head := range []string{
			"", "Connection: Upgrade\r\n", "Upgrade: ebb-egress\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Connection: close, Upgrade\r\nUpgrade: ebb-egress\r\n",
			upgrade + "Upgrade: ebb-egress\r\n", "Connection: Upgrade\r\nUpgrade: ebb-egress, h2c\r\n", upgrade + "Content-Length: 1\r\n", upgrade + "Transfer-Encoding: chunked\r\n",
		} {
			body := ""
			if announced := strings.Contains(head, "Content-Length") || strings.Contains(head, "chunked"); announced {
				body = "0\r\n\r\n"
			}
			// After a body that the server does not read the connection may be reset
			// before the response.
			if res, out := send(proof(), head, body); res == nil && body == "" || res != nil && res.StatusCode != http.StatusBadRequest {
				t.Errorf("%q: %v %s", head, res, out)
			}
		}
	}
	used := proof()
	if res, out := send(used, upgrade, ""); res == nil || res.StatusCode != http.StatusSwitchingProtocols || !strings.Contains(out, b.task.ID) {
		t.Fatalf("as it has to be: %v %q", res, out)
	}
	if res, out := send(used, upgrade, ""); res == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a proof that is used up: %v %q", res, out)
	}
	for range 10 { // more than the endpoint's maximum
		if res, out := send(proof(), upgrade, "GET /sandbox HTTP/1.1\r\nHost: box\r\n\r\n"); res != nil && strings.Contains(out, b.task.ID) {
			t.Errorf("who speaks before it may was heard: %v %q", res, out)
		}
	}
	if res, out := send(proof(), upgrade, ""); res == nil || res.StatusCode != http.StatusSwitchingProtocols || !strings.Contains(out, b.task.ID) {
		t.Errorf("after those: %v %q", res, out)
	}
	if _, err := runner.Endpoints.Close(t.Context(), opened); err != nil {
		t.Fatal(err)
	}
	if res, out := send(proof(), upgrade, ""); res == nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("a sandbox that is closed: %v %q", res, out)
	}
}

// accessToken gets a token of a principal, like its client.
func (b *farBed) accessToken(t *testing.T, id string) secret.Secret {
	t.Helper()
	var sent string
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: b.url, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = strings.TrimPrefix(r.Header.Get("Authorization"), "DPoP ")
		return http.DefaultTransport.RoundTrip(r)
	})}}, ClientID: id, Key: b.keys[id]})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Tasks.Get(t.Context(), b.task.ID); err != nil || sent == "" {
		t.Fatal(err, sent)
	}
	return secret.New(sent)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
