package provider_test

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
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
	c := provider.HTTP{Timeout: time.Minute}.Client()
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
	if _, err := (provider.HTTP{Timeout: 200 * time.Millisecond}).Client().Get(s.URL + "/hang"); err == nil {
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

// TestDeadConnectionIsLeft: a peer disappears without closing its connection. Pings detect
// that, and the next call uses a new connection. Without them the client would use the dead
// one for a quarter of an hour.
func TestDeadConnectionIsLeft(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("HTTP/%d", r.ProtoMajor)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()       //nolint:errcheck // the test is over
	var dead atomic.Int32 // connections up to this number pass nothing on
	go func() {
		for n := int32(1); ; n++ {
			down, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				return
			}
			pass := func(to, from net.Conn) {
				for b := make([]byte, 4096); ; {
					k, err := from.Read(b)
					if err != nil {
						_ = to.Close()
						return
					}
					if n > dead.Load() {
						_, _ = to.Write(b[:k])
					}
				}
			}
			go pass(up, down)
			go pass(down, up)
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := provider.HTTP{Roots: roots, Timeout: time.Second}.Client()
	call := func() error {
		r, err := c.Get("https://" + l.Addr().String())
		if err != nil {
			return err
		}
		_, err = provider.ReadBody(r, 10)
		return err
	}
	for end := time.Now().Add(2 * time.Minute); call() != nil; {
		if time.Now().After(end) {
			t.Fatal("no connection comes about")
		}
	}
	dead.Store(100)
	if call() == nil {
		t.Fatal("the connection is not dead: the test shows nothing")
	}
	dead.Store(1) // the first stays so; a new one works
	for end := time.Now().Add(2 * time.Minute); call() != nil; {
		if time.Now().After(end) {
			t.Fatal("the dead connection is used on")
		}
	}
}

func TestRootsAreChecked(t *testing.T) {
	if p, err := provider.Roots(""); p != nil || err != nil {
		t.Errorf("the system's: %v, %v", p, err)
	}
	if _, err := provider.Roots(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is accepted")
	}
	f := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(f, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Roots(f); err == nil {
		t.Error("a file without a certificate is accepted")
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	cause := errors.New("429")
	for header, want := range map[string]time.Duration{"": 3 * time.Second, "soon": 3 * time.Second, "7": 7 * time.Second, "0": time.Second, "999999": time.Hour} {
		err := provider.Busy(http.Header{"Retry-After": {header}}, now, 3*time.Second, cause)
		busy, is := errors.AsType[*provider.BusyError](err)
		if !is || busy.After != want || !errors.Is(err, cause) {
			t.Errorf("%q: %v, want %s", header, err, want)
		}
	}
}
