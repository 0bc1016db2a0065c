package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/broker/egress"
	"ebb/scopes"
)

// box is a task with a way out.
type box struct {
	b      *bed
	s      *brokertest.Sandbox
	pem    string // of its CA
	socket string
	ended  chan error // of one that Serve serves
}

func (b *bed) box(t *testing.T) *box {
	t.Helper()
	return b.boxOf(t, b.task(t))
}

// boxOf is another way out of a task.
func (b *bed) boxOf(t *testing.T, s *brokertest.Sandbox) *box {
	t.Helper()
	return b.boxOfTool(t, s, "")
}

// boxOfTool is one for one tool of it; "" = any.
func (b *bed) boxOfTool(t *testing.T, s *brokertest.Sandbox, tool string) *box {
	t.Helper()
	x := &box{b: b, s: s, socket: filepath.Join(t.TempDir(), "out"), ended: make(chan error, 1)}
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
	proxy := b.proxy // with makes another
	go func() { x.ended <- proxy.Serve(ctx, l, broker.Caller{TaskID: x.s.Task.ID, Tool: tool}, ca) }()
	t.Cleanup(cancel)
	return x
}

// task opens one that may have everything here.
func (b *bed) task(t *testing.T) *brokertest.Sandbox {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:*")
	return b.Open(t, spec)
}

// opened is a box as a runner opens it.
func (b *bed) opened(t *testing.T, tool string) (*box, broker.Box) {
	t.Helper()
	s := b.task(t)
	got, err := b.boxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.BoxSpec{Tool: tool})
	if err != nil {
		t.Fatal(err)
	}
	return &box{b: b, s: s, pem: got.CA, socket: got.Socket}, got
}

// placeholder asks for a credential.
func (x *box) placeholder(t *testing.T, scope string) string {
	t.Helper()
	tok, err := x.s.Ask(t, scope)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(tok.Token.Reveal(), egress.Prefix) {
		t.Fatalf("handed out %q", tok.Token.Reveal())
	}
	return tok.Token.Reveal()
}

// brief asks for a credential of a few seconds that is used while it lives, which on a busy
// machine is one of more: one that is over before it is there was not minted.
func (x *box) brief(t *testing.T, scope string, use func(broker.Token) error) {
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

func (x *box) dial() (net.Conn, error) { return net.Dial("unix", x.socket) }

// client is a client in the box.
func (x *box) client(t *testing.T, h2 bool) *http.Client {
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

// try does so with one that may be cut.
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
