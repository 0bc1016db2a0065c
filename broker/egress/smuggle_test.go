package egress_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// said sends text in a tunnel, with H and P in it as in hostile, and returns all answers.
func (x *box) said(t *testing.T, placeholder, text string) string {
	t.Helper()
	c, err := x.tunnelTo(t, x.b.host, "api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, strings.NewReplacer("Host: H", "Host: "+x.b.host, "Bearer P", "Bearer "+placeholder).Replace(text))
	all, _ := io.ReadAll(c)
	return string(all)
}

// E31, E38 and E39: what HTTP/1.1 lets be read in two ways arrives in one: as many requests as
// were judged, each framed anew, with the headers that were looked at.
func TestOneReading(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.box(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	for _, c := range []struct {
		name, text string
		body       string // of the one that arrives
		note       string // its X-Note
	}{
		{"E31 a length beside chunks", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: H\r\n\r\n", "hi", ""},
		{"E31 chunks before a length", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: H\r\nX: 0123456789\r\n\r\n", "", ""},
		{"E38 bare line feeds", "GET /v1/x HTTP/1.1\nHost: H\nAuthorization: Bearer P\nX-Note: a\nX-Api-Key: mine\nConnection: close\n\n", "", "a"},
		{"E39 a folded header", "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\nX-Note: a\r\n  X-Api-Key: mine\r\n\r\n", "", "a X-Api-Key: mine"},
		{"E39 a folded placeholder", "GET /v1/x HTTP/1.1\r\nHost: H\r\nConnection: close\r\nAuthorization: Bearer\r\n P\r\n\r\n", "", ""},
		{"E47 a body that is wanted", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "hi", ""},
		{"their twin", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\nX-Note: a\r\nContent-Length: 2\r\n\r\nhi", "hi", "a"},
	} {
		before := len(b.arrived())
		text := c.text
		if strings.Contains(text, "Bearer\r\n P") {
			text = strings.Replace(text, "\r\n P\r\n", "\r\n "+p+"\r\n", 1)
		}
		out := x.said(t, p, text)
		got := b.arrived()[before:]
		if len(got) != 1 || strings.Count(out, "HTTP/1.1 200") != 1 {
			t.Errorf("%s: %d arrived: %q", c.name, len(got), out)
			continue
		}
		r := got[0]
		if !strings.Contains(out, r.Method+" "+r.RequestURI+" "+c.body) || r.Header.Get("X-Note") != c.note || r.Header.Get("X-Api-Key") != "" || r.Header.Get("Authorization") != "Bearer "+canary || len(r.TransferEncoding) > 0 && r.ContentLength > 0 {
			t.Errorf("%s: arrived as %s %s %v, answered %q", c.name, r.Method, r.RequestURI, r.Header, out)
		}
	}
}

// E36: what stands beside the length of a chunk is passed on to nobody: the body is framed anew.
func TestChunksAreFramedAnew(t *testing.T) {
	t.Parallel()
	framed := make(chan string, 1)
	b := newBed(t, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack() // nobody has read the body
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		var body strings.Builder
		for line := "-"; err == nil && line != "\r\n"; {
			line, err = rw.ReadString('\n')
			body.WriteString(line)
		}
		framed <- body.String()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}, func(s *httptest.Server) { s.EnableHTTP2 = false })
	x := b.box(t)
	p := x.placeholder(t, "stripe:charges:write")
	const head = "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, body := range map[string]string{
		"none": "2\r\nhi\r\n0\r\n\r\n", "one": "2;a=b\r\nhi\r\n0\r\n\r\n", "a quoted one": "2;a=\"b\"\r\nhi\r\n0;c\r\n\r\n", "a long one": "2;" + strings.Repeat("a", 1000) + "\r\nhi\r\n0\r\n\r\n",
	} {
		if out := x.said(t, p, head+body); !strings.HasPrefix(out, "HTTP/1.1 200") {
			t.Errorf("%s: %q", name, out)
		}
		got := ""
		select {
		case got = <-framed:
		default: // it was answered after that, or never arrived
		}
		if got != "2\r\nhi\r\n0\r\n\r\n" {
			t.Errorf("%s: arrived as %q", name, got)
		}
	}
}

// E36: what stands there and does not end, or is more than the chunks themselves, is read no further, and no
// upstream takes what came for a whole body.
func TestChunkExtensionsWithoutEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	whole := map[string]bool{} // bodies that the upstream has read to their end
	b := newBed(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		whole[r.Header.Get("X-Note")] = err == nil
	})
	x := b.box(t)
	p := x.placeholder(t, "stripe:charges:write")
	const twin = "their twin"
	cases := map[string]string{
		twin:                  strings.Repeat("1;"+strings.Repeat("a", 30)+"\r\nx\r\n", 100) + "0\r\n\r\n",
		"one":                 "1;" + strings.Repeat("a", 64<<10),
		"one that has an end": "1;" + strings.Repeat("a", 64<<10) + "\r\nx\r\n0\r\n\r\n",
		"many":                strings.Repeat("1;"+strings.Repeat("a", 3000)+"\r\nx\r\n", 100) + "0\r\n\r\n",
		"the last":            "1\r\nx\r\n0;" + strings.Repeat("a", 64<<10),
	}
	for name, body := range cases {
		out := x.said(t, p, "POST /v1/charges HTTP/1.1\r\nHost: H\r\n"+auth+"Connection: close\r\nTransfer-Encoding: chunked\r\nX-Note: "+name+"\r\n\r\n"+body)
		if strings.HasPrefix(out, "HTTP/1.1 200") != (name == twin) {
			t.Errorf("%s: %q", name, out)
		}
	}
	b.upstream.Close() // when all is over that has arrived
	mu.Lock()
	defer mu.Unlock()
	for name := range cases {
		if whole[name] != (name == twin) {
			t.Errorf("%s: the upstream has read it to its end: %v", name, whole[name])
		}
	}
}

// E54: what is older than TLS 1.2 opens no tunnel.
func TestOldTLS(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.box(t)
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c := x.client(t, false)
		cfg := c.Transport.(*http.Transport).TLSClientConfig
		cfg.MinVersion, cfg.MaxVersion = version, version
		res, err := c.Get("https://" + b.host + "/v1/x")
		if err == nil {
			_ = res.Body.Close()
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

// E110: who takes every connection of its own box takes nobody else's.
func TestConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	greedy, other := b.box(t), b.box(t)
	for range 200 {
		c, err := greedy.dial()
		if err != nil {
			break // its queue is full, too
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n", b.host)
	}
	p := other.placeholder(t, "stripe:charges:read")
	for range 8 {
		if res, body := send(t, other.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK {
			t.Fatalf("another box: %s %q", res.Status, body)
		}
	}
}
