package egress_test

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// What has come of an answer that says its length is given on although the rest is not there.
func TestPartOfALongAnswer(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "13")
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "second\n")
	})
	x := b.box(t)
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+"/v1/x", nil)
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
			t.Errorf("h2 %t: %q %v, %q %v", h2, first, err1, second, err2)
		}
		_ = res.Body.Close()
	}
}

// A small answer says how long it is once secrets are marked in it, and no other length.
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
	x := b.box(t)
	p := x.placeholder(t, "stripe:charges:read")
	for _, h2 := range []bool{false, true} {
		for path, want := range map[string]string{"/v1/echo": "key=[redacted]", "/v1/plain": "nothing"} {
			res, body := send(t, x.client(t, h2), "GET", "https://"+b.host+path, "", "Authorization", "Bearer "+p)
			if body != want || res.ContentLength != int64(len(want)) {
				t.Errorf("h2 %t %s: %q, %d bytes", h2, path, body, res.ContentLength)
			}
		}
	}
}
