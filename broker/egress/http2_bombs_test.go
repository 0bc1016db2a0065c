package egress_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// bomb returns a header block (RFC 7541) that has 16 KiB on the wire, and 64 MiB when each of its
// references to one large table entry is expanded.
func bomb(first ...[2]string) []byte {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range append(first, [2]string{"x-bomb", strings.Repeat("b", 4000)}) {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	const newest = 0x80 | 62 // the first index after the static table (section 2.3.3)
	return append(block.Bytes(), bytes.Repeat([]byte{newest}, 16<<10-block.Len())...)
}

// E52: headers that grow while they are decoded are decoded only up to the maximum length of
// headers. The request is not sent, and the sandbox gets a refusal each time.
//
//ebb:invariant I12 The decoded size of HTTP/2 request headers, which can be much larger than their encoded form, is limited
func TestHTTP2HeaderBombs(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, other := b.sandbox(t), b.sandbox(t)
	f := x.framed(t)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	status := func(id uint32) string {
		for {
			fr, err := f.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, is := fr.(*http2.MetaHeadersFrame); is && h.StreamID == id {
				return h.PseudoValue("status")
			}
		}
	}
	well := func(id uint32) []byte {
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block) // with a table of its own: nothing is indexed
		for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", b.host}, {":path", "/v1/x"}} {
			_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true})
		}
		return block.Bytes()
	}
	id := uint32(1)
	ask := func(block []byte) string {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
		id += 2
		return status(id - 2)
	}
	for range 50 {
		if got := ask(bomb([2]string{":method", "GET"}, [2]string{":scheme", "https"}, [2]string{":authority", b.host}, [2]string{":path", "/v1/x"})); got != "431" {
			t.Fatalf("a bomb: %s", got)
		}
	}
	if got := ask(well(id)); got != "401" { // decoded completely: it has no placeholder
		t.Errorf("its twin: %s", got)
	}
	if n := len(b.arrived()); n != 0 {
		t.Errorf("%d arrived", n)
	}
	if res, body := send(t, other.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+other.placeholder(t, "stripe:charges:read")); res.StatusCode != http.StatusOK {
		t.Errorf("another sandbox: %d %s", res.StatusCode, body)
	}
}

// answers are responses of an upstream in HTTP/2.
var answers = map[string]func(f *http2.Framer, id uint32) error{
	"well": func(f *http2.Framer, id uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block([2]string{":status", "200"}), EndStream: true, EndHeaders: true})
	},
	"headers": func(f *http2.Framer, id uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: bomb([2]string{":status", "200"}), EndStream: true, EndHeaders: true})
	},
	"trailers": func(f *http2.Framer, id uint32) error {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block([2]string{":status", "200"}), EndHeaders: true}); err != nil {
			return err
		}
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: bomb(), EndStream: true, EndHeaders: true})
	},
	"interim": func(f *http2.Framer, id uint32) error {
		for range floodFrames / 10 {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block([2]string{":status", "103"}, [2]string{"link", strings.Repeat("l", 1000)}), EndHeaders: true}); err != nil {
				return err
			}
		}
		return nil
	},
	"continuation": func(f *http2.Framer, id uint32) error {
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block([2]string{":status", "200"})})
		for i := 0; err == nil && i < floodFrames/10; i++ {
			err = f.WriteContinuation(id, false, bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 3000))
		}
		return err
	},
}

// block returns headers as an encoder without a table writes them.
func block(headers ...[2]string) []byte {
	var out bytes.Buffer
	enc := hpack.NewEncoder(&out)
	for _, h := range headers {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true})
	}
	return out.Bytes()
}

// serveFrames answers each request of an HTTP/2 connection as its path selects.
func serveFrames(_ *http.Server, c *tls.Conn, _ http.Handler) {
	defer func() { _ = c.Close() }()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for err := f.WriteSettings(); err == nil; {
		var fr http2.Frame
		if fr, err = f.ReadFrame(); err != nil {
			return
		}
		if h, is := fr.(*http2.MetaHeadersFrame); is {
			err = answers[strings.TrimPrefix(h.PseudoValue("path"), "/v1/")](f, h.StreamID)
		}
	}
}

// E52: an upstream cannot make ebb read or keep unlimited headers either.
//
//ebb:invariant I12 The decoded size of response headers from an upstream is limited
func TestHTTP2HeaderBombsOfAnUpstream(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo, func(s *httptest.Server) {
		s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){http2.NextProtoTLS: serveFrames}
	})
	x := b.sandbox(t)
	c := x.client(t, true)
	for what := range answers {
		p := x.placeholder(t, "stripe:charges:read") // and so a connection of its own
		res, body, err := try(t, c, "GET", "https://"+b.host+"/v1/"+what, "", "Authorization", "Bearer "+p)
		switch {
		case what == "well":
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s: %v, %v", what, res, err)
			}
		case what == "trailers": // the headers have arrived; the trailers may be as long as headers may be
			if res == nil {
				t.Errorf("%s: %v", what, err)
			} else if n := 4000 * len(res.Trailer["X-Bomb"]); n > 512<<10 {
				t.Errorf("%s: %d bytes", what, n)
			}
		case err != nil || res.StatusCode != http.StatusBadGateway || len(res.Header) > 8:
			t.Errorf("%s: %v %q, %v", what, res, body, err)
		}
	}
}
