package fetch_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/fetch"
)

// TestClient: the limits of a Place, such as its maximum size and no redirects, also apply to
// the requests that a library makes with a client.
func TestClient(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", 101))
		default:
			_, _ = io.WriteString(w, strings.Repeat("x", 100))
		}
	}))
	defer s.Close()
	c, err := fetch.NewClient(s.URL, fetch.Config{MaxBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	get := func(url string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if b, err := get(s.URL); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := get(s.URL + "/large"); !errors.Is(err, fetch.ErrTooLarge) {
		t.Errorf("too much: %v", err)
	}
	if _, err := get(s.URL + "/moved"); !errors.Is(err, fetch.ErrRedirect) {
		t.Errorf("a redirect: %v", err)
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	_, port, err := net.SplitHostPort(secure.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// An address that an answer names is not the operator's word, nor is a name.
	for _, inside := range []string{"https://127.0.0.1:" + port, "https://localhost:" + port} {
		if _, err := get(inside); !errors.Is(err, fetch.ErrPrivate) {
			t.Errorf("%s: %v", inside, err)
		}
	}
	for _, plain := range []string{"http://example.com/", "http://127.0.0.1:1/", "http://[::1]:1/", "ftp://example.com/"} {
		if _, err := get(plain); err == nil || !strings.Contains(err.Error(), "not https") {
			t.Errorf("%s: %v", plain, err)
		}
	}
	for _, bad := range []string{"", "http://example.com", "https://u:p@example.com", "file:///etc/passwd"} {
		if _, err := fetch.NewClient(bad, fetch.Config{}); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}
