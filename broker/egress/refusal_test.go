package egress_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// TestRefusalByHTTP2: a refusal ends nothing else on its connection: it arrives, streams continue,
// and the next request uses the same connection.
//
//ebb:invariant I2 A refusal over HTTP/2 reaches the client and ends no other stream of the connection
func TestRefusalByHTTP2(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	x := b.sandbox(t)
	c := x.client(t, true)
	stream := x.streamBy(t, c, x.placeholder(t, "stripe:charges:read"))
	conns := map[net.Conn]bool{}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conns[i.Conn] = true }})
	for range 3 {
		r, err := http.NewRequestWithContext(ctx, "GET", "https://"+b.host+"/other", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized || res.ProtoMajor != 2 || res.Close {
			t.Errorf("%s by %s", res.Status, res.Proto)
		}
		if line, err := stream.ReadString('\n'); err != nil {
			t.Fatalf("the stream beside it: %q, %v", line, err)
		}
	}
	if len(conns) != 1 {
		t.Errorf("by %d connections", len(conns))
	}
}

// TestRetryAfter: a refusal for a temporary reason states when to try again (RFC 6585 section 4).
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	b := newBedOn(t, echo, func(c *brokertest.Config) { c.Limits.UsesPerMinute = 2 })
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:*")
	x := b.boxOf(t, b.Open(t, spec))
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		for range 4 {
			res, _ := send(t, x.client(t, h2), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
			after := res.Header.Get("Retry-After")
			if n, err := strconv.Atoi(after); (res.StatusCode == http.StatusTooManyRequests) != (err == nil && n >= 1 && n <= 60) {
				t.Errorf("%s: Retry-After %q", res.Status, after)
			}
		}
	}
}

// TestRightSide: a refusal names the side at fault. A malformed chunk of the sandbox is not
// reported as an unreachable upstream, nor is a response with two lengths.
//
//ebb:invariant I2 The egress proxy refuses a chunked request body that servers can parse in two ways, and reads no data after the body
//ebb:invariant I2 An egress refusal names the side at fault: the request of the sandbox or the response of the upstream
func TestRightSide(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi")
	}, http1Only)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	const head = "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n"
	for name, c := range map[string]struct{ text, status, reason string }{
		"a size that is none":      {head + "zz\r\nhi\r\n0\r\n\r\n", "400", "bad_body"},
		"a chunk without its end":  {head + "2\r\nhixx0\r\n\r\n", "400", "bad_body"},
		"a bare line feed":         {head + "2\nhi\r\n0\r\n\r\n", "400", "bad_body"},
		"one in a trailer":         {head + "2\r\nhi\r\n0\r\nX-T: a\n\r\n\r\n", "400", "bad_body"},
		"two lengths of an answer": {"GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "502", "bad_answer"},
	} {
		if out := x.said(t, p, c.text); !strings.HasPrefix(out, "HTTP/1.1 "+c.status) || !strings.Contains(out, `"`+c.reason+`"`) {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// TestHTTP2Names: an HTTP/2 request with two hosts, two credentials, or another scheme than its
// tunnel is refused (RFC 9113 section 8.3.1).
//
//ebb:invariant I2 The egress proxy refuses an HTTP/2 request with two hosts, two credentials, or a scheme other than that of its tunnel
func TestHTTP2Names(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for name, c := range map[string]struct {
		scheme, authority, host string
		status                  string
	}{
		"another host":        {"https", b.host, "www.example.com", "421"},
		"another scheme":      {"http", b.host, "", "400"},
		"the same host twice": {"https", b.host, b.host, "200"},
		"one":                 {"https", b.host, "", "200"},
		"host alone":          {"https", "", b.host, "200"},
		"two Authorization":   {"https", b.host, "", "400"},
		"host alone, another": {"https", "", "www.example.com", "421"},
	} {
		f := x.framed(t)
		second := ""
		if name == "two Authorization" {
			second = "Bearer mine"
		}
		sendHead(t, f, true, ":method", "GET", ":scheme", c.scheme, ":authority", c.authority, ":path", "/v1/x",
			"host", c.host, "authorization", "Bearer "+p, "authorization", second)
		if got := statusOf(t, f); got != c.status {
			t.Errorf("%s: %s, want %s", name, got, c.status)
		}
	}
}

// sendHead sends the head of an HTTP/2 request, given as names and values. It leaves out empty values.
func sendHead(t *testing.T, f *http2.Framer, ends bool, fields ...string) {
	t.Helper()
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for field := range slices.Chunk(fields, 2) {
		if field[1] != "" {
			_ = enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: ends, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

// statusOf reads an HTTP/2 connection up to the head of a response and returns its status.
func statusOf(t *testing.T, f *http2.Framer) string {
	t.Helper()
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, is := frame.(*http2.MetaHeadersFrame); is {
			return h.PseudoValue("status")
		}
	}
}

// If the body of an HTTP/2 request is shorter than declared, the sandbox gets 400, and the log names
// the request's body as the cause, not the upstream's response.
func TestHTTP2BodyShorterThanDeclared(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]func(*httptest.Server){"HTTP/1.1 upstream": {http1Only}, "HTTP/2 upstream": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, echo, change...)
			x := b.sandbox(t)
			f := x.framed(t)
			sendHead(t, f, false, ":method", "POST", ":scheme", "https", ":authority", b.host, ":path", "/v1/charges",
				"content-length", "5", "authorization", "Bearer "+x.placeholder(t, "stripe:charges:write"))
			if err := f.WriteData(1, true, []byte("ab")); err != nil {
				t.Fatal(err)
			}
			if got, log := statusOf(t, f), b.log.String(); got != "400" || strings.Contains(log, "cannot be parsed") || !strings.Contains(log, "declared a Content-Length of 5 but only wrote 2 bytes") {
				t.Errorf("status %s, log %s", got, log)
			}
		})
	}
}

// TestAnswerKeepsNoSession: headers that tell a browser to store state, or to go elsewhere, do not
// reach the sandbox.
func TestAnswerKeepsNoSession(t *testing.T) {
	t.Parallel()
	kept := []string{"Set-Cookie", "Set-Cookie2", "Refresh"}
	b := newBed(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range kept {
			w.Header().Set(name, "0; url=https://elsewhere.example/")
		}
	})
	x := b.sandbox(t)
	res, _ := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
	for _, name := range kept {
		if v := res.Header.Get(name); v != "" || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %q", res.Status, name, v)
		}
	}
}
