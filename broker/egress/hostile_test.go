package egress_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

// tunnelTo opens a tunnel byte by byte and starts TLS in it, with sni as the server name.
func (x *sandbox) tunnelTo(t *testing.T, host, sni string) (*tls.Conn, error) {
	t.Helper()
	return x.tunnelBy(t, host, &tls.Config{ServerName: sni})
}

// http1Only turns off HTTP/2 in an upstream.
func http1Only(s *httptest.Server) { s.EnableHTTP2 = false }

// inTunnel returns a connection to the upstream in a new tunnel, and fails the test if the tunnel is refused.
func (x *sandbox) inTunnel(t *testing.T) *tls.Conn {
	t.Helper()
	c, err := x.tunnelTo(t, x.b.host, "api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tunnelBy is tunnelTo with a TLS configuration.
func (x *sandbox) tunnelBy(t *testing.T, host string, cfg *tls.Config) (*tls.Conn, error) {
	t.Helper()
	c, err := x.dial()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
	line := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(c, line); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(x.pem))
	cfg.RootCAs, cfg.NextProtos = roots, []string{"http/1.1"}
	if name, _, _ := strings.Cut(host, ":"); cfg.ServerName != name {
		cfg.InsecureSkipVerify = true // without the tunnel's name the certificate cannot be verified
	}
	s := tls.Client(c, cfg)
	return s, s.HandshakeContext(t.Context())
}

// hostile is a case of hostile data in a tunnel. H and P in the text stand for the tunnel's host
// and a placeholder of the sandbox.
type hostile struct {
	label  string // of docs/reference/conformance.md
	name   string
	text   string
	status string // of the first response; "" = no 2xx
	twin   string // the same without the hostile part: it arrives
}

// many returns n headers with different names.
func many(n int) string {
	var all strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&all, "X-%d: x\r\n", i)
	}
	return all.String()
}

const auth = "Authorization: Bearer P\r\n"

var hostiles = []hostile{
	{"E21", "another Host", "GET /v1/x HTTP/1.1\r\nHost: evil.example.com\r\n" + auth + "\r\n", "421", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{"E21", "absolute form", "GET https://evil.example.com/v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "421", ""},
	{"E21", "absolute form, same host", "GET https://H/v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "421", ""},
	{"E27", "CONNECT in a tunnel", "CONNECT H HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E32", "unknown coding", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: xchunked\r\n\r\n", "501", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"},
	{"E32", "two codings", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501", ""},
	{"E33", "space before the colon", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400", ""},
	{"E34", "two lengths", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", "400", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\n\r\nhi"},
	{"E34", "a signed length", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: +3\r\n\r\nhi!", "400", ""},
	{"E34", "a list of lengths", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 3, 4\r\n\r\nhi!", "400", ""},
	{"E40", "a bare CR", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "X: a\rb\r\n\r\n", "400", ""},
	{"E40", "a NUL", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "X: a\x00b\r\n\r\n", "400", ""},
	{"E41", "line ends in the path", "GET /v1/x%0d%0aHost:%20evil HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E41", "line ends in the query", "GET /v1/x?a=%0d%0ab HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "200", ""},
	{"E42", "no Host", "GET /v1/x HTTP/1.1\r\n" + auth + "\r\n", "400", ""},
	{"E42", "two Hosts", "GET /v1/x HTTP/1.1\r\nHost: H\r\nHost: evil.example.com\r\n" + auth + "\r\n", "400", ""},
	{"E42", "a path in Host", "GET /v1/x HTTP/1.1\r\nHost: H/x\r\n" + auth + "\r\n", "400", ""},
	{"E42", "a login in Host", "GET /v1/x HTTP/1.1\r\nHost: a@H\r\n" + auth + "\r\n", "400", ""},
	{"E43", "HTTP/2.0 by line", "GET /v1/x HTTP/2.0\r\nHost: H\r\n" + auth + "\r\n", "505", ""},
	{"E43", "a preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", ""},
	{"E43", "no version", "GET /v1/x\r\n", "400", "GET /v1/x HTTP/1.0\r\nHost: H\r\n" + auth + "Connection: keep-alive\r\n\r\n"},
	{"E44", "OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E47", "a body that nobody wants", "POST /v1/refunds HTTP/1.1\r\nHost: H\r\n" + auth + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", "403", ""},
	{"E48", "a method in lower case", "get /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E48", "a method that is none", "G@T /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E48", "a long method", strings.Repeat("A", 8<<10) + " /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E48", "TRACE", "TRACE /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E49", "headers of 300 KB", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "X: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", "431", ""},
	{"E49", "20,000 headers", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + strings.Repeat("X: x\r\n", 20_000) + "\r\n", "431", ""},
	{"E49", "201 headers", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + strings.Repeat("X: x\r\n", 200) + "\r\n", "400", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + strings.Repeat("X: x\r\n", 199) + "\r\n"},
	{"E49", "201 headers of other names", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + many(200) + "\r\n", "400", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + many(199) + "\r\n"},
	{"E53", "an upgrade to h2c", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "400", ""},
	{"E55", "dots", "GET /v1/../v2/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E57", "dots and a semicolon", "GET /v1/..;/v2 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E58", "a backslash", "GET /v1\\..\\x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E60", "two slashes", "GET //evil.example.com/v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E61", "overlong UTF-8", "GET /v1/%c0%ae%c0%ae/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E63", "a question mark that is none", "GET /v1/x%3fy HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E63", "a fragment", "GET /v1/x#y HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E65", "a semicolon in the query", "GET /v1/x?a=1;b=2 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", "GET /v1/x?a=1&b=2 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{"E65", "a bad escape in the query", "GET /v1/x?a=%zz HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{"E69", "a mutation where a rule reads", "POST /v1/graphql HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\n\r\n{}", "403", "GET /v1/graphql?query=%7Bme%7D HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{"E70", "a push where a rule reads", "POST /v1/o/r.git/git-receive-pack HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\n\r\nhi", "403", "GET /v1/o/r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{"E71", "a signed URL", "GET /v1/x?X-Amz-Credential=AKIA&X-Amz-Signature=00 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "403", ""},
	{"E71", "a copy from elsewhere", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "X-Amz-Copy-Source: /theirs/key\r\nContent-Length: 0\r\n\r\n", "400", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "X-Amz-Meta-Copy: /theirs/key\r\nContent-Length: 0\r\n\r\n"},
	{"E71", "a move to elsewhere", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Destination: /theirs/key\r\nContent-Length: 0\r\n\r\n", "400", ""},
	{"E73", "Authorization nominated", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close, Authorization\r\n\r\n", "400", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\n\r\n"},
	{"E76", "no placeholder", "GET /v1/x HTTP/1.1\r\nHost: H\r\nAuthorization: Bearer mine\r\n\r\n", "401", ""},
	{"E97", "a WebSocket", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n", "403", ""},
	{"E99", "frames behind a WebSocket that is none", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n\x01\x02hi\x80\x00", "403", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
}

// Hostile data in tunnels is refused and never arrives; its harmless twin arrives.
//
//ebb:invariant I6 A request inside a tunnel is refused unless it names the host of the tunnel
//ebb:invariant I6 An egress request is refused if one of its headers names a second resource, such as the source of a copy
//ebb:invariant I12 The size of the request headers that a sandbox sends is limited
//ebb:invariant I12 The number of header fields in a request of a sandbox is limited
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	ask := func(text string) string {
		c := x.inTunnel(t)
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, strings.NewReplacer("H\r", b.host+"\r", "https://H/", "https://"+b.host+"/", "CONNECT H ", "CONNECT "+b.host+" ", "Host: H/x", "Host: "+b.host+"/x", "Bearer P", "Bearer "+p).Replace(text))
		line, _ := bufio.NewReader(c).ReadString('\n')
		if _, rest, ok := strings.Cut(line, " "); ok {
			status, _, _ := strings.Cut(rest, " ")
			return status
		}
		return ""
	}
	for _, h := range hostiles {
		before := len(b.arrived())
		if got := ask(h.text); got != h.status && h.status != "" || h.status == "" && strings.HasPrefix(got, "2") {
			t.Errorf("%s %s: %q, want %q", h.label, h.name, got, h.status)
		}
		if n := len(b.arrived()) - before; n != 0 && h.status != "200" {
			t.Errorf("%s %s: it arrived", h.label, h.name)
		}
		if h.twin == "" {
			continue
		}
		if got := ask(h.twin); got != "200" {
			t.Errorf("%s %s, harmless: %q", h.label, h.name, got)
		}
	}
	if res, _ := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", res.Status)
	}
}

// E19, E20 and E23: a tunnel is for one name. Another name in the TLS handshake is refused, a
// missing one means the tunnel's, and the certificate has only that name. A request cannot name
// another host either (E21).
//
//ebb:invariant I6 A TLS handshake inside an egress tunnel is refused if it names a host other than the host of the tunnel
func TestNamesOfTunnels(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	if c, err := x.tunnelTo(t, b.host, "www.example.com"); err == nil {
		t.Errorf("another name: %v", c.ConnectionState().PeerCertificates[0].DNSNames)
	}
	for _, sni := range []string{"", "api.example.com"} {
		c, err := x.tunnelTo(t, b.host, sni)
		if err != nil {
			t.Fatalf("%q: %v", sni, err)
		}
		leaf := c.ConnectionState().PeerCertificates[0]
		if len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != "api.example.com" || leaf.IsCA || len(leaf.IPAddresses)+len(leaf.URIs) != 0 {
			t.Errorf("%q: %v", sni, leaf.DNSNames)
		}
	}
	p := x.placeholder(t, "stripe:charges:read")
	for name, want := range map[string]int{b.host: http.StatusOK, strings.Replace(b.host, "api.", "www.", 1): http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+"/v1/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = name // in HTTP/2, the :authority
		r.Header.Set("Authorization", "Bearer "+p)
		res, err := x.client(t, true).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.ProtoMajor != 2 || res.StatusCode != want {
			t.Errorf("%s in the tunnel to %s: %s %s", name, b.host, res.Proto, res.Status)
		}
	}
	if n := len(b.arrived()); n != 1 {
		t.Errorf("%d arrived", n)
	}
}

// E45: each request of a connection is checked by itself.
func TestPipelined(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	c := x.inTunnel(t)
	one := "GET /v1/a HTTP/1.1\r\nHost: " + b.host + "\r\nAuthorization: Bearer " + p + "\r\n\r\n"
	_, _ = io.WriteString(c, one+strings.Replace(one, "/v1/a", "/v2/b", 1)+strings.Replace(one, "/v1/a", "/v1/c", 1))
	all, _ := io.ReadAll(c)
	if n := strings.Count(string(all), "HTTP/1.1 200"); n != 1 || strings.Count(string(all), "HTTP/1.1 403") != 1 || len(b.arrived()) != 1 {
		t.Errorf("%d arrived: %q", len(b.arrived()), all)
	}
}

// E121: the CA of a task certifies nothing after the end of the task, cannot issue another CA, and
// is limited to its names. No other task's CA is valid for it.
//
//ebb:invariant I8 The CA of a task cannot issue certificates for further CAs
func TestCA(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	ca, err := egress.NewCA("tsk_1", end, []string{"example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	block, rest := pem.Decode(ca.PEM())
	if c, err := x509.ParseCertificate(block.Bytes); err != nil || len(rest) > 0 || c.MaxPathLen != 0 || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("a CA for %d steps, for %b, and %d bytes behind it: %v", c.MaxPathLen, c.KeyUsage, len(rest), err)
	}
	other, err := egress.NewCA("tsk_2", end, []string{"example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Leaf("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if cert, err := x509.ParseCertificate(theirs.Certificate[0]); err != nil {
		t.Error(err)
	} else if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "api.example.com"}); err == nil {
		t.Error("the CA of another task certifies for this one")
	}
	for name, ok := range map[string]bool{"api.example.com": true, "api.example.org": false} {
		leaf, err := ca.Leaf(name)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(leaf.Certificate[0])
		if err != nil || !cert.NotAfter.Equal(end.UTC()) {
			t.Fatalf("%s: until %s, %v", name, cert.NotAfter, err)
		}
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: end.Add(time.Second)}); err == nil {
			t.Errorf("%s is certified after the end", name)
		}
	}
	for i := range 1000 {
		if _, err := ca.Leaf(fmt.Sprintf("h%d.example.com", i)); err != nil {
			t.Fatal(err)
		}
	}
}
