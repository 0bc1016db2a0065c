package egress_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// said sends text in a tunnel, with H and P as in hostile, and returns all responses.
func (x *sandbox) said(t *testing.T, placeholder, text string) string {
	t.Helper()
	c := x.inTunnel(t)
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, strings.NewReplacer("Host: H", "Host: "+x.b.host, "Bearer P", "Bearer "+placeholder).Replace(text))
	all, _ := io.ReadAll(c)
	return string(all)
}

// E31, E38 and E39: HTTP/1.1 that servers can read in two ways is refused, in a tunnel and at the
// endpoint itself, also after a valid request, and however it is split into packets. Data after it
// is not read.
//
//ebb:invariant I2 The egress proxy refuses an HTTP/1.1 request that servers can parse in two ways, and reads no data after the request
func TestTwoReadings(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	const behind = "GET /v1/smuggled HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n"
	for name, text := range map[string]string{
		"E31 a length beside chunks":   "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"E31 chunks before a length":   "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\n",
		"E31 chunks by HTTP/1.0":       "POST /v1/charges HTTP/1.0\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"E34 the same length twice":    "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
		"E38 bare line feeds":          "GET /v1/x HTTP/1.1\nHost: H\nAuthorization: Bearer P\n\n",
		"E38 one bare line feed":       "GET /v1/x HTTP/1.1\r\nHost: H\r\nX-Note: a\nX-Api-Key: mine\r\n" + auth + "\r\n",
		"E38 a bare one at the end":    "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\n",
		"E39 a folded header":          "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "X-Note: a\r\n  X-Api-Key: mine\r\n\r\n",
		"E39 a folded placeholder":     "GET /v1/x HTTP/1.1\r\nHost: H\r\nAuthorization: Bearer\r\n\t" + p + "\r\n\r\n",
		"E39 folded before any header": "GET /v1/x HTTP/1.1\r\n Host: H\r\nHost: H\r\n" + auth + "\r\n",
		"E40 an empty line in front":   "\r\nGET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n",
		"two of its own credentials":   "GET /v1/x HTTP/1.1\r\nHost: H\r\n" + auth + "Authorization: Bearer mine\r\nConnection: close\r\n\r\n",
	} {
		before := len(b.arrived())
		for _, first := range []string{"", "GET /v1/first HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n2;a\r\nhi\r\n0\r\nX-T: a\r\n\r\n"} {
			out := x.said(t, p, first+text+behind)
			if first == "" && (!strings.HasPrefix(out, "HTTP/1.1 400") || !strings.Contains(out, "bad_header")) || strings.Contains(out, "smuggled") {
				t.Errorf("%s: %q", name, out)
			}
		}
		for _, r := range b.arrived()[before:] {
			if r.URL.Path == "/v1/smuggled" || r.URL.Path == "/v1/x" {
				t.Errorf("%s: %s arrived", name, r.URL.Path)
			}
		}
		base := strings.NewReplacer("/v1/", "/to/"+b.host+"/v1/", "Host: H", "Host: 127.0.0.1:3128", "Bearer P", "Bearer "+p).Replace(text)
		if out := raw(t, x, base); !strings.HasPrefix(out, "HTTP/1.1 400") {
			t.Errorf("%s at the endpoint: %q", name, out)
		}
	}
}

// TestStrictInPieces: however requests are split, the same requests arrive.
//
//ebb:invariant I2 The egress proxy refuses an HTTP/1.1 request that servers can parse in two ways, and reads no data after the request
func TestStrictInPieces(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	text := strings.NewReplacer("Host: H", "Host: "+b.host, "Bearer P", "Bearer "+p).Replace("GET /v1/a HTTP/1.1\r\nHost: H\r\n" + auth + "\r\n" +
		"POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Content-Length: 5\r\n\r\nGET /" +
		"POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\na\nb\r\nA\r\n0123456789\r\n0\r\n\r\n" +
		"GET /v1/z HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\n\r\n")
	for _, size := range []int{1, 2, 7, 100, len(text)} {
		before := len(b.arrived())
		c := x.inTunnel(t)
		go func() {
			for at := 0; at < len(text); at += size {
				_, _ = io.WriteString(c, text[at:min(at+size, len(text))])
			}
		}()
		out, _ := io.ReadAll(c)
		_ = c.Close()
		var paths []string
		for _, r := range b.arrived()[before:] {
			paths = append(paths, r.URL.Path)
		}
		if got := strings.Join(paths, " "); got != "/v1/a /v1/charges /v1/charges /v1/z" || !strings.Contains(string(out), "/v1/charges GET /") || !strings.Contains(string(out), "/v1/charges a\nb0123456789") {
			t.Errorf("by %d bytes arrived %s: %q", size, got, out)
		}
	}
}

// E47: a request that can be read in one way arrives, framed anew.
func TestOneReading(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read stripe:charges:write")
	for _, c := range []struct {
		name, text string
		body       string // of the request that arrives
		note       string // its X-Note header
	}{
		{"E47 a body that is wanted", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "hi", ""},
		{"their twin", "POST /v1/charges HTTP/1.1\r\nHost: H\r\n" + auth + "Connection: close\r\nX-Note: a\r\nContent-Length: 2\r\n\r\nhi", "hi", "a"},
	} {
		before := len(b.arrived())
		out := x.said(t, p, c.text)
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

// E36: a chunk extension is not passed on, because the body is framed anew.
func TestChunksAreFramedAnew(t *testing.T) {
	t.Parallel()
	framed := make(chan string, 1)
	b := newBed(t, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack() // before the body is read
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
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}, http1Only)
	x := b.sandbox(t)
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
		default: // it was answered after that, or did not arrive
		}
		if got != "2\r\nhi\r\n0\r\n\r\n" {
			t.Errorf("%s: arrived as %q", name, got)
		}
	}
}

// E36: chunk extensions that do not end, or that exceed the chunks themselves, are not read
// further, and no upstream takes the partial body for a complete one.
func TestChunkExtensionsWithoutEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	whole := map[string]bool{} // bodies that the upstream has read to the end
	b := newBed(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		whole[r.Header.Get("X-Note")] = err == nil
	})
	x := b.sandbox(t)
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
	b.upstream.Close() // after the end of all requests that have arrived
	mu.Lock()
	defer mu.Unlock()
	for name := range cases {
		if whole[name] != (name == twin) {
			t.Errorf("%s: the upstream has read it to its end: %v", name, whole[name])
		}
	}
}

// E54: versions before TLS 1.2 open no tunnel.
//
//ebb:invariant I6 A TLS connection inside an egress tunnel uses TLS 1.2 or later
func TestOldTLS(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
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

// E110: a sandbox that uses all its connections takes none from others.
func TestConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	greedy, other := b.sandbox(t), b.sandbox(t)
	for range 200 {
		c, err := greedy.dial()
		if err != nil {
			break // the queue of the listener is full, too
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n", b.host)
	}
	p := other.placeholder(t, "stripe:charges:read")
	for range 8 {
		if res, body := send(t, other.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK {
			t.Fatalf("another sandbox: %s %q", res.Status, body)
		}
	}
}
