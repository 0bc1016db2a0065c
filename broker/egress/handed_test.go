package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
)

// away returns Endpoints that open endpoints for sandboxes on other machines.
func (b *bed) away(t *testing.T) *egress.Endpoints {
	t.Helper()
	sandboxes, err := egress.NewEndpoints(egress.EndpointsConfig{Proxy: b.proxy, Runners: b.Broker, Dir: filepath.Join(t.TempDir(), "b"), Identity: broker.EndpointBySocket, Remote: true})
	if err != nil {
		t.Fatal(err)
	}
	b.Broker.Cut(sandboxes)
	t.Cleanup(func() { _ = sandboxes.Close() })
	return sandboxes
}

// carried returns a sandbox on another machine, with its socket there and a Forwarder of its
// connections.
func (b *bed) carried(t *testing.T, sandboxes *egress.Endpoints) (*sandbox, broker.EgressEndpoint) {
	t.Helper()
	s, who := b.task(t), b.Principals[brokertest.Runner]
	got, err := sandboxes.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{Identity: broker.EndpointByRunner})
	if err != nil || got.Socket != "" || got.Identity != broker.EndpointByRunner || got.State != broker.EndpointOpen {
		t.Fatalf("%+v, %v", got, err)
	}
	dir, err := os.MkdirTemp("", "ebb-listener-")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := egress.NewListener(dir, got, broker.EndpointBySocket, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- egress.Forwarder{Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			enter, err := sandboxes.Enter(ctx, who, s.Task.ID, got.ID)
			if err != nil && broker.AsError(err).Kind == broker.TooMany {
				return nil, egress.ErrBusy
			}
			if err != nil {
				return nil, err
			}
			here, there := socketPair(t)
			enter(there)
			return here, nil
		}}.Serve(ctx, listener)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the carrier ended with %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		_ = os.RemoveAll(dir)
	})
	return &sandbox{b: b, s: s, pem: got.CA, socket: listener.Socket()}, got
}

// socketPair returns both ends of one TCP connection.
func socketPair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return here, there
}

// TestForwardedConnection: a sandbox on another machine sends requests as one on this machine does, in
// HTTP/1.1 and HTTP/2.
func TestForwardedConnection(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, _ := b.carried(t, b.away(t))
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		res, body := send(t, x.client(t, h2), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
		if res.StatusCode != 200 {
			t.Errorf("h2 %v: %s %q", h2, res.Status, body)
		}
	}
	if res, _ := send(t, x.client(t, false), "GET", "https://"+b.host+"/other", "", "Authorization", "Bearer "+p); res.StatusCode != 403 {
		t.Errorf("past its grant: %s", res.Status)
	}
}

// TestForwardedConnectionIsCut: the end of the task closes all its connections.
func TestForwardedConnectionIsCut(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	sandboxes := b.away(t)
	x, sandbox := b.carried(t, sandboxes)
	events := x.stream(t, x.placeholder(t, "stripe:charges:read"))
	other, _ := b.carried(t, sandboxes)
	theirs := other.stream(t, other.placeholder(t, "stripe:charges:read"))
	who := b.Principals[brokertest.Runner]
	if _, err := b.Broker.CompleteTask(t.Context(), who, x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	cut(t, "completed", events)
	// The endpoint and the streams are closed at the same time, in any order.
	until(t, "the endpoint is closed", func() bool {
		give, err := sandboxes.Enter(t.Context(), who, x.s.Task.ID, sandbox.ID)
		if err == nil {
			give(nil)
			return false
		}
		return broker.AsError(err).Kind == broker.NotFound
	})
	if line, err := theirs.ReadString('\n'); err != nil {
		t.Errorf("another task's stream: %q, %v", line, err)
	}
	if out := raw(t, x, "GET /sandbox HTTP/1.1\r\nHost: box\r\n\r\n"); !strings.Contains(out, " 503 ") || !strings.Contains(out, `"unavailable"`) {
		t.Errorf("response of an ebb without this endpoint: %q", out)
	}
}

// TestForwardedConnectionIsOfItsRunner: only the runner of the task may pass connections, only for a sandbox
// with this identity, and only at an ebb that allows it.
//
//ebb:invariant I6 Only the runner of a task can forward connections of a sandbox on another machine, and only if the sandbox is registered for forwarding
//ebb:invariant I6 ebb opens an egress endpoint for a sandbox on another machine only if its configuration allows remote sandboxes
func TestForwardedConnectionIsOfItsRunner(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	mine, other := b.Principals[brokertest.Runner], b.Principals[brokertest.Runner2]
	s := b.task(t)
	open := func(sandboxes *egress.Endpoints, who broker.Principal, by broker.EndpointIdentity) (broker.EgressEndpoint, error) {
		return sandboxes.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{Identity: by})
	}
	enter := func(sandboxes *egress.Endpoints, who broker.Principal, id string) error {
		give, err := sandboxes.Enter(t.Context(), who, s.Task.ID, id)
		if err == nil {
			give(nil)
		}
		return err
	}
	away := b.away(t)
	is := func(what string, err error, want broker.Kind) {
		t.Helper()
		if err == nil && want != "" || err != nil && broker.AsError(err).Kind != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	_, err := open(b.sandboxes, mine, broker.EndpointByRunner)
	is("an ebb that carries none", err, broker.Conflict)
	_, err = open(away, other, broker.EndpointByRunner)
	is("another runner's task", err, broker.NotFound)
	for _, by := range []broker.EndpointIdentity{broker.EndpointBySocket, broker.EndpointByKernel, "nobody"} {
		_, err = open(away, mine, by)
		is("known by "+string(by), err, broker.Invalid)
	}
	sandbox, err := open(away, mine, broker.EndpointByRunner)
	is("mine", err, "")
	is("by its runner", enter(away, mine, sandbox.ID), "")
	is("by another", enter(away, other, sandbox.ID), broker.NotFound)
	is("at another ebb", enter(b.sandboxes, mine, sandbox.ID), broker.NotFound)
	is("no box", enter(away, mine, "egr_0"), broker.NotFound)
	here, err := open(away, mine, "")
	is("here", err, "")
	is("into a box that has a socket", enter(away, mine, here.ID), broker.Conflict)
	got, err := away.Register(t.Context(), mine, s.Task.ID, sandbox.ID, 7)
	if is("registered", err, ""); got.State != broker.EndpointOpen {
		t.Errorf("registered: %+v", got)
	}
	if kinds := b.kinds(t, s.Task.ID); len(kinds) != 2 {
		t.Errorf("in the audit log: %v", kinds)
	}
	if _, err := away.Shut(t.Context(), mine, s.Task.ID, sandbox.ID); err != nil {
		t.Fatal(err)
	}
	is("closed", enter(away, mine, sandbox.ID), broker.NotFound)
}

// TestHandedConnectionsAreBounded: the connections that wait for the endpoint are limited, and all
// of them end with the endpoint.
//
//ebb:invariant I6 The number of forwarded connections that wait to be accepted by a remote egress endpoint is limited
func TestHandedConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	b.with(t, func(c *egress.Config) { c.Connections = 1 })
	sandboxes, who := b.away(t), b.Principals[brokertest.Runner]
	s := b.task(t)
	got, err := sandboxes.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{Identity: broker.EndpointByRunner})
	if err != nil {
		t.Fatal(err)
	}
	var all, theirs []net.Conn
	hand := func() error {
		enter, err := sandboxes.Enter(t.Context(), who, s.Task.ID, got.ID)
		if err == nil {
			here, there := socketPair(t)
			enter(there)
			all, theirs = append(all, here), append(theirs, there)
		}
		return err
	}
	if err := hand(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(all[0], "GET /sandbox HTTP/1.1\r\nHost: box\r\n\r\n")
	if _, err := all[0].Read(make([]byte, 1)); err != nil { // accepted; the sandbox may have no more
		t.Fatal(err)
	}
	for i := range 8 {
		if err := hand(); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := hand(); err == nil || broker.AsError(err).Kind != broker.TooMany {
		t.Fatalf("one more: %v", err)
	}
	// A connection that is closed frees a place.
	_ = all[0].Close()
	until(t, "there is room again", func() bool {
		enter, err := sandboxes.Enter(t.Context(), who, s.Task.ID, got.ID)
		if err == nil {
			enter(nil)
		}
		return err == nil
	})
	if _, err := sandboxes.Shut(t.Context(), who, s.Task.ID, got.ID); err != nil {
		t.Fatal(err)
	}
	for i, c := range all[1:] {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d goes on: %v", i+1, err)
		}
		_ = c.Close()
	}
	runtime.KeepAlive(theirs) // ebb must close them, not the garbage collector
}
