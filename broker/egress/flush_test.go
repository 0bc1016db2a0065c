package egress_test

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// The available part of a response with a Content-Length is sent on before the rest has arrived.
func TestPartOfALongAnswer(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		length := 13
		if r.URL.Path == "/v1/long" {
			length = 1 << 20
		}
		w.Header().Set("Content-Length", strconv.Itoa(length))
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "second\n"+strings.Repeat("x", length-13))
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for path, h2 := range map[string]bool{"/v1/short": false, "/v1/long": false, "/v1/short#": true, "/v1/long#": true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p)
		res, err := x.client(t, h2).Do(r)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		body := bufio.NewReader(res.Body)
		first, err1 := body.ReadString('\n')
		read <- struct{}{}
		second, err2 := body.ReadString('\n')
		if first != "first\n" || second != "second\n" || err1 != nil || err2 != nil {
			t.Errorf("%s: %q %v, %q %v", path, first, err1, second, err2)
		}
		rest, err := io.Copy(io.Discard, body)
		if want := map[string]int64{"/v1/long": 1<<20 - 13}[strings.TrimSuffix(path, "#")]; rest != want || err != nil {
			t.Errorf("%s: %d bytes more, want %d: %v", path, rest, want, err)
		}
		_ = res.Body.Close()
	}
}

// A long response whose upstream breaks off does not look complete.
func TestLongAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<20))
		_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+"/v1/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p)
		res, err := x.client(t, h2).Do(r)
		if err != nil {
			continue // disconnected before any of it was sent on
		}
		if n, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Errorf("h2 %t: it ended well after %d bytes", h2, n)
		}
		_ = res.Body.Close()
	}
}

// A small response has the length that it has after secrets were marked. If it arrives so slowly
// that a part is sent first, it has no Content-Length.
func TestLengthOfASmallAnswer(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		text := "nothing"
		if r.URL.Path == "/v1/echo" {
			text = "key=" + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = io.WriteString(w, text)
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		for path, want := range map[string]string{"/v1/echo": "key=[redacted]", "/v1/plain": "nothing"} {
			until(t, path+" says its length", func() bool {
				res, body := send(t, x.client(t, h2), "GET", "https://"+b.host+path, "", "Authorization", "Bearer "+p)
				if body != want || res.ContentLength != int64(len(want)) && res.ContentLength != -1 {
					t.Fatalf("h2 %t %s: %q, %d bytes", h2, path, body, res.ContentLength)
				}
				return res.ContentLength != -1
			})
		}
	}
}
