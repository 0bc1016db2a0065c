package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// An ebb opens egress endpoints over its API, only for the runner of the task,
// and closes them with the task.
func TestServeOpensEndpoints(t *testing.T) {
	t.Parallel()
	people, keys, err := withKeys([]broker.Principal{{ID: "runner", Roles: []broker.Role{broker.RoleRunner}}, {ID: "other", Roles: []broker.Role{broker.RoleRunner}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed(t.Context(), embedding{Environ: []string{"EBB_EGRESS_IDENTITY=socket"}, People: people, Providers: []config.Provider{{Name: "local", Kind: "jwt", Resource: "https://local.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	}()
	as := func(id string) *client.Operator {
		o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: e.url}, ClientID: id, Key: keys[id]})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	runner := as("runner")
	task, _, err := runner.Tasks.Open(t.Context(), wire.TaskSpec{Name: "n", Kind: "k", Owner: "o", TTL: 600, Ceiling: "local:a/**:*", Expect: wire.Expect{Attestor: "enroll"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as("other").Endpoints.Open(t.Context(), task.ID, wire.EgressEndpointSpec{}); !client.IsKind(err, wire.KindNotFound) {
		t.Errorf("another runner: %v", err)
	}
	opened, err := runner.Endpoints.Open(t.Context(), task.ID, wire.EgressEndpointSpec{Tool: "git"})
	if err != nil || opened.State != wire.EndpointOpen || opened.Tool != "git" {
		t.Fatal(opened, err)
	}
	if got, err := runner.Endpoints.Register(t.Context(), opened, 7); err != nil || got.ID != opened.ID {
		t.Error(got, err)
	}
	c, err := net.Dial("unix", opened.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "GET /sandbox HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
	if out, err := io.ReadAll(c); err != nil || !strings.Contains(string(out), task.ID) {
		t.Errorf("%q, %v", out, err)
	}
	second, err := runner.Endpoints.Open(t.Context(), task.ID, wire.EgressEndpointSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := runner.Endpoints.Close(t.Context(), second); err != nil || got.State != wire.EndpointClosed {
		t.Error(got, err)
	}
	if _, err := runner.Tasks.Complete(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("unix", opened.Socket); err == nil {
		_ = c.Close()
		t.Error("the sandbox of a task that is complete has a socket")
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(opened.Socket))); err != nil {
		t.Error(err)
	}
}

// Egress can be disabled, and a request to open an endpoint is then refused
// with the reason.
func TestServeWithoutEgress(t *testing.T) {
	t.Parallel()
	people, keys, err := withKeys([]broker.Principal{{ID: "runner", Roles: []broker.Role{broker.RoleRunner}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed(t.Context(), embedding{Environ: []string{"EBB_EGRESS_ENABLED=false"}, People: people, Providers: []config.Provider{{Name: "local", Kind: "jwt", Resource: "https://local.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	}()
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: e.url}, ClientID: "runner", Key: keys["runner"]})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := o.Tasks.Open(t.Context(), wire.TaskSpec{Name: "n", Kind: "k", Owner: "o", TTL: 600, Ceiling: "local:a/**:*", Expect: wire.Expect{Attestor: "enroll"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Endpoints.Open(t.Context(), task.ID, wire.EgressEndpointSpec{}); !client.IsKind(err, wire.KindConflict) || !strings.Contains(err.Error(), "egress.enabled") {
		t.Errorf("a sandbox of an ebb without egress: %v", err)
	}
}
