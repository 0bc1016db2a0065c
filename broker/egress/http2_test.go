package egress_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed opens a tunnel in which a test writes the HTTP/2 frames (RFC 9113) itself.
func (x *sandbox) framed(t *testing.T) *http2.Framer {
	t.Helper()
	c, err := x.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	host := x.b.host
	if _, err := io.WriteString(c, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(x.pem))
	name, _, _ := strings.Cut(host, ":")
	s := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{http2.NextProtoTLS}})
	if err := s.HandshakeContext(t.Context()); err != nil || s.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		t.Fatal(err, s.ConnectionState().NegotiatedProtocol)
	}
	if _, err := io.WriteString(s, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(s, s)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// floodFrames is the number of frames in each flood. A server that keeps no state for them need not
// close the connection; one that keeps state must.
const floodFrames = 20_000

// floods are clients that cause a server work or memory without end, in turns n.
var floods = map[string]func(f *http2.Framer, head []byte, n uint32) error{
	"rapid reset": func(f *http2.Framer, head []byte, n uint32) error { // CVE-2023-44487
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: head, EndStream: true, EndHeaders: true}); err != nil {
			return err
		}
		return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
	},
	"made you reset": func(f *http2.Framer, head []byte, n uint32) error { // CVE-2025-8671
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: head, EndHeaders: true}); err != nil {
			return err
		}
		return f.WriteWindowUpdate(2*n+1, 1<<31-1)
	},
	"continuation": func(f *http2.Framer, head []byte, n uint32) error { // CVE-2023-45288
		if n == 0 {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head})
		}
		return f.WriteContinuation(1, false, bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 3000))
	},
	"settings": func(f *http2.Framer, _ []byte, _ uint32) error { // CVE-2019-9515
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
	},
	"ping":   func(f *http2.Framer, _ []byte, _ uint32) error { return f.WritePing(false, [8]byte{}) }, // CVE-2019-9512
	"window": func(f *http2.Framer, _ []byte, _ uint32) error { return f.WriteWindowUpdate(0, 1<<31-1) },
}

// E52: a sandbox that floods its HTTP/2 connection does not affect others. A flood for which a
// server would have to keep state ends the connection.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	other := b.sandbox(t)
	p, c := other.placeholder(t, "stripe:charges:read"), other.client(t, true)
	for what, flood := range floods {
		x := b.sandbox(t)
		f := x.framed(t) // which does not read the responses
		var head bytes.Buffer
		enc := hpack.NewEncoder(&head)
		for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", b.host}, {":path", "/v1/x"}} {
			_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		var err error
		for n := uint32(0); err == nil && n < floodFrames; n++ {
			err = flood(f, head.Bytes(), n)
		}
		if what == "continuation" && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
			t.Errorf("%s goes on", what)
		}
		if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK {
			t.Errorf("%s: another sandbox: %d %s", what, res.StatusCode, body)
		}
		if res, _ := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read")); res.StatusCode != http.StatusOK {
			t.Errorf("%s: its own next connection: %d", what, res.StatusCode)
		}
	}
}
