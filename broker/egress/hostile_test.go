package egress_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ebb/broker/egress"
)

// tunnelTo opens a tunnel byte by byte and speaks TLS in it, for a name of its own choice.
func (x *box) tunnelTo(t *testing.T, host, sni string) (*tls.Conn, error) {
	t.Helper()
	return x.tunnelBy(t, host, &tls.Config{ServerName: sni})
}

// tunnelBy does so by a client that is configured.
func (x *box) tunnelBy(t *testing.T, host string, cfg *tls.Config) (*tls.Conn, error) {
	t.Helper()
	c, err := x.dial()
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
	line := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(c, line); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(x.pem))
	cfg.RootCAs, cfg.NextProtos = roots, []string{"http/1.1"}
	if name, _, _ := strings.Cut(host, ":"); cfg.ServerName != name {
		cfg.InsecureSkipVerify = true // who sends no name, or another one, checks none
	}
	s := tls.Client(c, cfg)
	return s, s.HandshakeContext(t.Context())
}

// hostile is a case of what a box can send inside of a tunnel. H, P in the text stand
// for the tunnel's host and a placeholder of the box.
type hostile struct {
	nr     int // as the cases of egress are counted
	name   string
	text   string
	status string // of the first answer; "" = none, or what follows
	twin   string // the same without what is hostile: it arrives
}

const auth = "Authorization: Bearer P\r\n"

var hostiles = []hostile{
	{21, "another Host", "GET /v1/x HTTP/1.1\r\nHost: evil.example.com\r\n" + auth + "\r\n", "421", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{21, "absolute form", "GET https://evil.example.com/v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "421", ""},
	{21, "absolute form, same host", "GET https://H/v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "421", ""},
	{27, "CONNECT in a tunnel", "CONNECT H HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{32, "unknown coding", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: xchunked\r\n\r\n", "501", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"},
	{32, "two codings", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501", ""},
	{33, "space before the colon", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400", ""},
	{34, "two lengths", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", "400", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\n\r\nhi"},
	{34, "a signed length", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: +3\r\n\r\nhi!", "400", ""},
	{34, "a list of lengths", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 3, 4\r\n\r\nhi!", "400", ""},
	{40, "a bare CR", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "X: a\rb\r\n\r\n", "400", ""},
	{40, "a NUL", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "X: a\x00b\r\n\r\n", "400", ""},
	{41, "line ends in the path", "GET /v1/x%0d%0aHost:%20evil HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{41, "line ends in the query", "GET /v1/x?a=%0d%0ab HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "200", ""},
	{42, "no Host", "GET /v1/x HTTP/1.1\r\n" + auth + "\r\n", "400", ""},
	{42, "two Hosts", "GET /v1/x HTTP/1.1\r\nHost: H\r\nHost: evil.example.com\r\n" + auth + "\r\n", "400", ""},
	{42, "a path in Host", "GET /v1/x HTTP/1.1\r\nHost: H/x\r\n" + auth + "\r\n", "400", ""},
	{42, "a login in Host", "GET /v1/x HTTP/1.1\r\nHost: a@H\r\n" + auth + "\r\n", "400", ""},
	{43, "HTTP/2.0 by line", "GET /v1/x HTTP/2.0\r\nHost: H\r\n" + auth + "\r\n", "505", ""},
	{43, "a preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", ""},
	{44, "OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{48, "a method in lower case", "get /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{48, "a long method", strings.Repeat("A", 8<<10) + " /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{48, "TRACE", "TRACE /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{49, "headers of 300 KB", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "X: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", "431", ""},
	{53, "an upgrade to h2c", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "400", ""},
	{55, "dots", "GET /v1/../v2/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{57, "dots and a semicolon", "GET /v1/..;/v2 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{58, "a backslash", "GET /v1\\..\\x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{60, "two slashes", "GET //evil.example.com/v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{61, "overlong UTF-8", "GET /v1/%c0%ae%c0%ae/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{63, "a question mark that is none", "GET /v1/x%3fy HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{63, "a fragment", "GET /v1/x#y HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{65, "a semicolon in the query", "GET /v1/x?a=1;b=2 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", "GET /v1/x?a=1&b=2 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{65, "a bad escape in the query", "GET /v1/x?a=%zz HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "400", ""},
	{69, "a mutation where a rule reads", "POST /v1/graphql HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\n\r\n{}", "403", "GET /v1/graphql?query=%7Bme%7D HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{70, "a push where a rule reads", "POST /v1/o/r.git/git-receive-pack HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\n\r\nhi", "403", "GET /v1/o/r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
	{71, "a signed URL", "GET /v1/x?X-Amz-Credential=AKIA&X-Amz-Signature=00 HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "403", ""},
	{71, "a copy from elsewhere", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "X-Amz-Copy-Source: /theirs/key\r\nContent-Length: 0\r\n\r\n", "400", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "X-Amz-Meta-Copy: /theirs/key\r\nContent-Length: 0\r\n\r\n"},
	{71, "a move to elsewhere", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Destination: /theirs/key\r\nContent-Length: 0\r\n\r\n", "400", ""},
	{73, "Authorization nominated", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close, Authorization\r\n\r\n", "400", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\n\r\n"},
	{76, "no placeholder", "GET /v1/x HTTP/1.1\r\nHost: H\r\nAuthorization: Bearer mine\r\n\r\n", "401", ""},
	{97, "a WebSocket", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n", "403", ""},
	{99, "frames behind a WebSocket that is none", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n\x01\x02hi\x80\x00", "403", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"},
}

// What hostile boxes send inside of tunnels is refused, its harmless twin arrives, and
// nothing hostile does.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.box(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	ask := func(text string) string {
		c, err := x.tunnelTo(t, b.host, "api.example.com")
		if err != nil {
			t.Fatal(err)
		}
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
			t.Errorf("%d %s: %q, want %q", h.nr, h.name, got, h.status)
		}
		if n := len(b.arrived()) - before; n != 0 && h.status != "200" {
			t.Errorf("%d %s: it arrived", h.nr, h.name)
		}
		if h.twin == "" {
			continue
		}
		if got := ask(h.twin); got != "200" {
			t.Errorf("%d %s, harmless: %q", h.nr, h.name, got)
		}
	}
	if res, _ := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", res.Status)
	}
}

// 19, 20 and 23: a tunnel is for one name. Another in the TLS handshake is refused, none
// is the tunnel's, and the certificate holds that one alone.
func TestNamesOfTunnels(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.box(t)
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
}

// 45: each request of a connection is judged by itself.
func TestPipelined(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.box(t)
	p := x.placeholder(t, "stripe:charges:read")
	c, err := x.tunnelTo(t, b.host, "api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	one := "GET /v1/a HTTP/1.1\r\nHost: " + b.host + "\r\nAuthorization: Bearer " + p + "\r\n\r\n"
	_, _ = io.WriteString(c, one+strings.Replace(one, "/v1/a", "/v2/b", 1)+strings.Replace(one, "/v1/a", "/v1/c", 1))
	all, _ := io.ReadAll(c)
	if n := strings.Count(string(all), "HTTP/1.1 200"); n != 1 || strings.Count(string(all), "HTTP/1.1 403") != 1 || len(b.arrived()) != 1 {
		t.Errorf("%d arrived: %q", len(b.arrived()), all)
	}
}

// 121: the CA of a task certifies nothing after the task, in no second step, and with
// names given nothing else.
func TestCA(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	ca, err := egress.NewCA("tsk_1", end, []string{"example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
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
