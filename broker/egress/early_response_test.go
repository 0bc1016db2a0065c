package egress_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// If an upstream responds before the end of a request, it gets the rest of the request without a gap,
// and the sandbox gets the whole response.
func TestEarlyResponse(t *testing.T) {
	t.Parallel()
	const part, parts, size = 4 << 10, 26, 10 << 10
	got := make(chan error, 1)
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		_, _ = io.ReadFull(r.Body, make([]byte, part))
		_, _ = io.WriteString(w, strings.Repeat("y", size))
		_ = c.Flush()
		rest, err := io.Copy(io.Discard, r.Body)
		if rest != part*parts {
			err = errors.Join(err, fmt.Errorf("the rest has %d bytes", rest))
		}
		got <- err
	}, http1Only)
	x := b.sandbox(t)
	auth := x.placeholder(t, "stripe:charges:write")
	plain := strings.Repeat("x", part)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", part, plain)
	for i := range 20 {
		framing, piece, end := "Transfer-Encoding: chunked", chunk, "0\r\n\r\n"
		if i%2 == 1 {
			framing, piece, end = fmt.Sprint("Content-Length: ", part*(1+parts)), plain, ""
		}
		c := x.inTunnel(t)
		_, _ = fmt.Fprintf(c, "POST /v1/charges HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", b.host, auth, framing, piece)
		go func() { _, _ = io.WriteString(c, strings.Repeat(piece, parts)+end) }()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res.Body); err != nil || len(text) != size {
			t.Errorf("%s: the sandbox: %d bytes, %v", framing, len(text), err)
		}
		if err := <-got; err != nil {
			t.Errorf("%s: the upstream: %v", framing, err)
		}
	}
}

// After a response that begins before the end of a request, the connection ends: the rest of that body
// is never read as another request.
func TestEarlyResponseEndsTheConnection(t *testing.T) {
	t.Parallel()
	for name, framing := range map[string]string{
		"length":    "Content-Length: 4096\r\n\r\n",
		"chunks":    "Transfer-Encoding: chunked\r\n\r\n1000\r\n",
		"continues": "Expect: 100-continue\r\nContent-Length: 4096\r\n\r\n",
	} {
		for _, status := range []int{http.StatusOK, http.StatusNoContent, http.StatusNotModified, http.StatusForbidden} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				t.Parallel()
				b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
					_ = http.NewResponseController(w).EnableFullDuplex()
					w.Header().Set("Connection", "close") // as net/http requires for the upstream itself
					w.WriteHeader(status)
				}, http1Only)
				x := b.sandbox(t)
				auth := x.placeholder(t, "stripe:charges:write")
				c := x.inTunnel(t)
				head := "POST /v1/charges HTTP/1.1\r\nHost: " + b.host + "\r\nAuthorization: Bearer " + auth + "\r\n"
				_, _ = io.WriteString(c, head+framing)
				r := bufio.NewReader(c)
				res, err := http.ReadResponse(r, nil)
				for err == nil && res.StatusCode == http.StatusContinue {
					res, err = http.ReadResponse(r, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode == http.StatusOK && status != http.StatusOK || !res.Close {
					t.Errorf("%s, the connection is closed: %t, %v", res.Status, res.Close, err)
				}
				another := head + "Content-Length: 0\r\n\r\n"
				_, _ = io.WriteString(c, strings.Repeat("x", 4096)+"\r\n0\r\n\r\n"+another+another)
				if res, err := http.ReadResponse(r, nil); err == nil {
					t.Errorf("got a second response: %s", res.Status)
				}
			})
		}
	}
}
