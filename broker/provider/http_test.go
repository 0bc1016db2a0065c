package provider_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ebb/broker/provider"
)

func TestClientFollowsNoRedirectAndGivesUp(t *testing.T) {
	stop := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/away", http.RedirectHandler("/secret", http.StatusFound))
	mux.HandleFunc("/secret", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	mux.HandleFunc("/hang", func(http.ResponseWriter, *http.Request) { <-stop })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("half"))
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 101)) })
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(stop)
	c := provider.HTTP{Timeout: 200 * time.Millisecond}.Client()
	get := func(path string) *http.Response {
		t.Helper()
		r, err := c.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := get("/away"); r.StatusCode != http.StatusFound {
		t.Errorf("redirect answered %d", r.StatusCode)
	}
	if _, err := c.Get(s.URL + "/hang"); err == nil {
		t.Error("a server that hangs was waited for")
	}
	if _, err := provider.ReadBody(get("/cut"), 100); err == nil {
		t.Error("half an answer was taken for a whole one")
	}
	if _, err := provider.ReadBody(get("/big"), 100); !errors.Is(err, provider.ErrTooLarge) {
		t.Errorf("an answer that is too large = %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": time.Second, "999999": time.Hour, " 3 ": 3 * time.Second, now.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): time.Second,
		"": 0, "-1": 0, "soon": 0, "1.5": 0, "99999999999999999999": 0,
	} {
		h := http.Header{}
		h.Set("Retry-After", v)
		if got, ok := provider.RetryAfter(h, now); got != want || ok != (want > 0) {
			t.Errorf("Retry-After %q = %s, %v; want %s", v, got, ok, want)
		}
	}
}

func TestOptionsAreStrict(t *testing.T) {
	var c struct {
		A int `json:"a"`
	}
	if err := provider.Decode(map[string]any{"a": 1}, &c); err != nil || c.A != 1 {
		t.Errorf("Decode = %v, %+v", err, c)
	}
	for _, bad := range []map[string]any{{"b": 1}, {"a": "x"}} {
		if err := provider.Decode(bad, &c); err == nil {
			t.Errorf("Decode(%v) is accepted", bad)
		}
	}
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return p
	}
	if s, err := provider.ReadSecret(write("good", "canary\n", 0o600)); err != nil || s.Reveal() != "canary" {
		t.Errorf("ReadSecret = %v", err)
	}
	for _, bad := range []string{
		write("open", "canary", 0o644), write("empty", "\n", 0o600), write("big", strings.Repeat("canary", 20000), 0o600),
		filepath.Join(dir, "none"), dir,
	} {
		if _, err := provider.ReadSecret(bad); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("ReadSecret(%s) = %v", bad, err)
		}
	}
}
