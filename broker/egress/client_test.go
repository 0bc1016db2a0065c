package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/scopes"
)

// sandbox is a task with an egress endpoint.
type sandbox struct {
	b      *bed
	s      *brokertest.Sandbox
	pem    string // of its CA
	socket string
	ended  chan error // for endpoints that Serve serves
}

func (b *bed) sandbox(t *testing.T) *sandbox {
	t.Helper()
	return b.boxOf(t, b.task(t))
}

// boxOf opens another endpoint of a task.
func (b *bed) boxOf(t *testing.T, s *brokertest.Sandbox) *sandbox {
	t.Helper()
	return b.boxOfTool(t, s, "")
}

// boxOfTool opens an endpoint for one tool of a task; "" = any tool.
func (b *bed) boxOfTool(t *testing.T, s *brokertest.Sandbox, tool string) *sandbox {
	t.Helper()
	x := &sandbox{b: b, s: s, socket: filepath.Join(t.TempDir(), "out"), ended: make(chan error, 1)}
	ca, err := egress.NewCA(x.s.Task.ID, time.Now().Add(time.Hour), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	x.pem = string(ca.PEM())
	l, err := net.Listen("unix", x.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	proxy := b.proxy // with replaces b.proxy
	go func() { x.ended <- proxy.Serve(ctx, l, broker.Caller{TaskID: x.s.Task.ID, Tool: tool}, ca) }()
	t.Cleanup(cancel)
	return x
}

// task opens a task that may request every scope of these tests.
func (b *bed) task(t *testing.T) *brokertest.Sandbox {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:*")
	return b.Open(t, spec)
}

// opened opens an endpoint as a runner does.
func (b *bed) opened(t *testing.T, tool string) (*sandbox, broker.EgressEndpoint) {
	t.Helper()
	s := b.task(t)
	got, err := b.sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.EgressEndpointSpec{Tool: tool})
	if err != nil {
		t.Fatal(err)
	}
	return &sandbox{b: b, s: s, pem: got.CA, socket: got.Socket}, got
}

// guess returns a placeholder that is not p, another one for each n from 0 to 65,534.
func guess(t *testing.T, p string, n int) string {
	t.Helper()
	tail, err := strconv.ParseUint(p[len(p)-4:], 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s%04x", p[:len(p)-4], uint16(tail)^uint16(n+1))
}

// placeholder requests a credential.
func (x *sandbox) placeholder(t *testing.T, scope string) string {
	t.Helper()
	tok, err := x.s.Ask(t, scope)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(tok.Token.Reveal(), egress.Prefix) {
		t.Fatalf("the sandbox got %q, not a placeholder", tok.Token.Reveal())
	}
	return tok.Token.Reveal()
}

// brief requests a credential of a few seconds and uses it. On a busy machine it tries several
// times, because a credential that would expire before it is ready is not issued.
func (x *sandbox) brief(t *testing.T, scope string, use func(broker.Token) error) {
	t.Helper()
	for ttl := 2 * time.Second; ; ttl *= 2 {
		r := x.s.Request(t, scope)
		r.TTL = ttl
		tok, err := x.b.Broker.Token(t.Context(), r)
		if err == nil {
			err = use(tok)
		}
		if err == nil {
			return
		}
		if ttl > time.Minute {
			t.Fatal(err)
		}
	}
}

func (x *sandbox) dial() (net.Conn, error) { return net.Dial("unix", x.socket) }

// onTCP returns a TCP address whose connections continue in those that dial opens, for clients
// without support for Unix sockets.
func onTCP(t *testing.T, dial func() (net.Conn, error)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			out, err := dial()
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, c); _ = out.Close() }()
			go func() { _, _ = io.Copy(c, out); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// client returns an HTTP client in the sandbox.
func (x *sandbox) client(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(x.pem))
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "out.invalid"}),
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return x.dial() },
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2, DisableCompression: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// send does one request with headers given as pairs, and returns status and body.
func send(t *testing.T, c *http.Client, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	res, text, err := try(t, c, method, url, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res, text
}

// try is send for a request that may be disconnected.
func try(t *testing.T, c *http.Client, method, url, body string, headers ...string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}
