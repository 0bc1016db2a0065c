//go:build linux

package egress_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress"
)

// passer is the runner of a sandbox on ebb's machine: it has the socket and passes the connections
// on.
func passer(t *testing.T, sandbox broker.EgressEndpoint) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb-listener-")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := egress.NewListener(dir, sandbox, broker.EndpointBySocket, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.Dial("unix", sandbox.Socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- egress.Forwarder{Pass: func(_ context.Context, c *net.UnixConn) error { return egress.Pass(to.(*net.UnixConn), c) }}.Serve(ctx, listener)
	}()
	t.Cleanup(func() {
		cancel()
		_ = to.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return listener.Socket()
}

// TestForwardedIdentity: the kernel identifies the process that made a passed connection. The
// runner's own connections and those of another sandbox are rejected.
//
//ebb:invariant I2 An egress endpoint trusts only the kernel to identify the process that opened a connection forwarded by a runner, and rejects processes outside the sandbox
func TestForwardedIdentity(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	sandboxes := b.openEndpoints(t, broker.EndpointByKernel)
	if err := sandboxes.Kernel(); err != nil {
		counterpart.Missing(t, "peer-pidfd", "PIDFD_GET_NET_NAMESPACE needs Linux 6.11: "+err.Error())
	}
	s, who := b.task(t), b.Principals[brokertest.Runner]
	x, err := sandboxes.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{Forward: true})
	if err != nil || x.State != broker.EndpointWaiting || x.Identity != broker.EndpointByKernel || x.Socket == "" {
		t.Fatal(x, err)
	}
	socket := passer(t, x)
	in, other := isolated(t, socket), isolated(t, socket)
	in.ask() // not registered yet: it waits
	if got, err := sandboxes.Register(t.Context(), who, s.Task.ID, x.ID, in.namespace); err != nil || got.State != broker.EndpointOpen {
		t.Fatal(got, err)
	}
	if got := in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("the sandbox: %q", got)
	}
	other.ask()
	if got := other.answer(t); got != "" {
		t.Errorf("another sandbox: %q", got)
	}
	if got := asked(socket); got != "" {
		t.Errorf("the runner: %q", got)
	}
	in.ask()
	if got := in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("the sandbox again: %q", got)
	}
	if got := fmt.Sprint(b.kinds(t, x.TaskID)); got != "[box.opened box.registered box.stranger the peer is in another network namespace than the registered one]" {
		t.Errorf("in the audit log: %s", got)
	}
}

// TestForwardedHostile: passing anything but a connection of a Unix socket ends the connection of
// the runner and nothing else; no descriptor is leaked.
//
//ebb:invariant I2 An egress endpoint trusts only the kernel to identify the process that opened a connection forwarded by a runner, and rejects processes outside the sandbox
func TestForwardedHostile(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	s, who := b.task(t), b.Principals[brokertest.Runner]
	x, err := b.sandboxes.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{Forward: true})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	here, there := socketPair(t)
	defer func() { _, _ = here.Close(), there.Close() }()
	tcp, err := here.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	fds := func(all ...*os.File) (n []int) {
		for _, f := range all {
			n = append(n, int(f.Fd()))
		}
		return n
	}
	for name, rights := range map[string][]byte{
		"nothing": nil, "a file": unix.UnixRights(fds(file)...), "a connection of TCP": unix.UnixRights(fds(tcp)...),
		"many": unix.UnixRights(fds(file, tcp, file, tcp, file, tcp)...), "two": unix.UnixRights(fds(tcp, tcp)...),
	} {
		c, err := net.Dial("unix", x.Socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte("G"), rights, nil); err != nil {
			t.Fatal(name, err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		_ = c.Close()
	}
	if got := asked(passer(t, x)); got != "HTTP/1.1 200 OK" {
		t.Errorf("after those: %q", got)
	}
}

// replica returns the Endpoints of another process of ebb with this key.
func (b *bed) replica(t *testing.T, key string) *egress.Endpoints {
	t.Helper()
	sandboxes, err := egress.NewEndpoints(egress.EndpointsConfig{Proxy: b.proxy, Runners: b.Broker, Dir: filepath.Join(t.TempDir(), "b"), Identity: broker.EndpointBySocket, Remote: true, Key: []byte(key)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sandboxes.Close() })
	return sandboxes
}

// TestEndpointOpensAgain: after a restart, the runner opens an endpoint again, under its id and with a CA
// that the sandbox already trusts. No other CA is trusted: neither that of another task, nor of
// another id, nor of another ebb.
//
//ebb:invariant I2 Only the runner of a task can reopen its egress endpoint, with the same ID and CA, and only while the task is open
func TestEndpointOpensAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	s, who := b.task(t), b.Principals[brokertest.Runner]
	const key = "0123456789abcdef0123456789abcdef"
	before := b.replica(t, key)
	x, err := before.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	after := b.replica(t, key)
	for range 2 { // the first response may have been lost
		again, err := after.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{ID: x.ID})
		if err != nil || again.ID != x.ID {
			t.Fatal(again, err)
		}
		old := &sandbox{b: b, s: s, pem: x.CA, socket: again.Socket} // trusts the CA that it got at its start
		if res, body := send(t, old.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+old.placeholder(t, "stripe:charges:read")); res.StatusCode != http.StatusOK {
			t.Errorf("after the restart: %s %s", res.Status, body)
		}
	}
	another := b.task(t)
	for name, open := range map[string]func() (broker.EgressEndpoint, error){
		"another task": func() (broker.EgressEndpoint, error) {
			return b.replica(t, key).Open(t.Context(), who, another.Task.ID, broker.EgressEndpointSpec{ID: x.ID})
		},
		"another id": func() (broker.EgressEndpoint, error) {
			return after.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{ID: "egr_" + strings.Repeat("0", 32)})
		},
		"another ebb": func() (broker.EgressEndpoint, error) {
			return b.replica(t, "another 0123456789abcdef01234567").Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{ID: x.ID})
		},
	} {
		got, err := open()
		if err != nil {
			t.Fatal(name, err)
		}
		if keyOf(t, got.CA) == keyOf(t, x.CA) {
			t.Errorf("%s has the same CA", name)
		}
	}
	for name, id := range map[string]string{"a path": "egr_../../../../../../../../../../aaaa", "short": "egr_00", "capitals": "egr_" + strings.Repeat("A", 32), "a line": "egr_" + strings.Repeat("0", 32) + "\n"} {
		if _, err := after.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{ID: id}); broker.AsError(err).Kind != broker.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := after.Open(t.Context(), b.Principals[brokertest.Runner2], s.Task.ID, broker.EgressEndpointSpec{ID: x.ID}); broker.AsError(err).Kind != broker.NotFound {
		t.Errorf("another runner: %v", err)
	}
	if _, err := b.Broker.CompleteTask(t.Context(), who, s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := after.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{ID: x.ID}); broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("after the end of its task: %v", err)
	}
}

// keyOf returns the public key of a certificate.
func keyOf(t *testing.T, text string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return string(cert.RawSubjectPublicKeyInfo)
}

// TestStoppingIsSaid: when ebb stops, running requests get 503 with Retry-After, in HTTP/1.1 and
// HTTP/2, also if their body has been sent. A stream that has begun is disconnected.
//
//ebb:invariant I2 A stop of ebb answers the egress requests in flight before their connections close
func TestStoppingIsSaid(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 8)
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/events" {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "data: tick\n")
			_ = http.NewResponseController(w).Flush()
		}
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	sandboxes := b.replica(t, "0123456789abcdef0123456789abcdef")
	s := b.task(t)
	opened, err := sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.EgressEndpointSpec{})
	if err != nil {
		t.Fatal(err)
	}
	x := &sandbox{b: b, s: s, pem: opened.CA, socket: opened.Socket}
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	type answer struct {
		what   string
		status int
		after  string
		body   string
		err    error
	}
	answers := make(chan answer, 3)
	ask := func(what string, h2 bool, method, body string) {
		c := x.client(t, h2)
		go func() {
			r, err := http.NewRequestWithContext(context.Background(), method, "https://"+b.host+"/v1/charges", strings.NewReader(body))
			if err != nil {
				answers <- answer{what: what, err: err}
				return
			}
			r.Header.Set("Authorization", "Bearer "+p)
			res, err := c.Do(r)
			if err != nil {
				answers <- answer{what: what, err: err}
				return
			}
			all, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			answers <- answer{what, res.StatusCode, res.Header.Get("Retry-After"), string(all), err}
		}()
		<-arrived
	}
	stream := x.stream(t, p)
	<-arrived
	ask("HTTP/1.1", false, "GET", "")
	ask("HTTP/1.1 with a body", false, "POST", "hi")
	ask("HTTP/2", true, "GET", "")
	if err := sandboxes.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if a := <-answers; a.err != nil || a.status != http.StatusServiceUnavailable || a.after == "" || !strings.Contains(a.body, `"unavailable"`) {
			t.Errorf("%+v", a)
		}
	}
	cut(t, "stopping", stream)
}
