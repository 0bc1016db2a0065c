package fetch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false, "0.0.0.0": false, "255.255.255.255": false,
		"224.0.0.1": false, "::1": false, "::": false, "fe80::1": false, "fd00:ec2::254": false, "::ffff:169.254.169.254": false,
		"64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::": false, "2606:4700::5efe:a9fe:a9fe": false, "2606:4700::200:5efe:10.0.0.1": false, "2606:4700::5efe": true, "2606:4700::100:5efe:a9fe:a9fe": true, "fec0::1": false, "ff02::1": false, "198.18.0.1": false,
		"::127.0.0.1": false, "::ffff:0:127.0.0.1": false, "::a9fe:a9fe": false, "5f00::1": false, "3fff::1": false, "4000::1": false,
		"168.63.129.16": false, "192.88.99.1": false, "::ffff:8.8.8.8": true, "fe80::1%eth0": false,
	} {
		if got := fetch.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: public %t, want %t", text, got, want)
		}
	}
}

// TestNamesThatLeadInside: a name that resolves to this machine is refused after DNS, unless
// it is allowed.
func TestNamesThatLeadInside(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	inside := "https://" + insider(t) + ":" + port
	for _, private := range []bool{false, true} {
		p, err := fetch.NewPlace(inside, fetch.Config{Private: private})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Do(t.Context(), fetch.Request{}); err == nil || errors.Is(err, fetch.ErrPrivate) == private {
			t.Errorf("private allowed %t: got %v", private, err) // allowed: the certificate is unknown
		}
	}
}

// insider is a name, not an address and not localhost, that leads to an address which
// is not public: this machine's own, or one under localhost (RFC 6761).
func insider(t *testing.T) string {
	t.Helper()
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{own, "keys.localhost", "ip6-localhost"} {
		addrs, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip", name)
		if err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, fetch.Public) {
			return name
		}
	}
	counterpart.Missing(t, "hostname", "this machine's resolver knows no name of its own")
	return ""
}

func TestPlace(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[http.Request]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r)
		switch r.URL.Query().Get("do") {
		case "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "large":
			w.Write(make([]byte, 101)) //nolint:errcheck // test
		case "hang":
			<-r.Context().Done()
		default:
			w.Header().Set("Cache-Control", "max-age=7")
			w.WriteHeader(http.StatusTeapot)
			w.Write(make([]byte, 100)) //nolint:errcheck // test
		}
	}))
	defer s.Close()
	var seen atomic.Int64
	place := func(timeout time.Duration) *fetch.Place {
		p, err := fetch.NewPlace(s.URL+"/base?fixed=1", fetch.Config{MaxBytes: 100, Timeout: timeout, Observe: func(fetch.Event) { seen.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := place(time.Minute)
	a, err := p.Do(t.Context(), fetch.Request{Method: http.MethodPost, Below: []string{"a/../b", "?c"}, Query: url.Values{"q": {"&"}}, Body: []byte("x")})
	if err != nil || a.Status != http.StatusTeapot || a.MaxAge != 7*time.Second || len(a.Body) != 100 {
		t.Fatalf("got %d, %v, %v", a.Status, a.MaxAge, err)
	}
	if r := got.Load(); r.RequestURI != "/base/a%2F..%2Fb/%3Fc?fixed=1&q=%26" || r.Method != http.MethodPost {
		t.Errorf("asked for %s %s", r.Method, r.RequestURI)
	}
	ask := func(p *fetch.Place, do string) error {
		_, err := p.Do(t.Context(), fetch.Request{Query: url.Values{"do": {do}, "secret": {"canary"}}})
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error repeats the query: %v", do, err)
		}
		return err
	}
	if err := ask(p, "redirect"); !errors.Is(err, fetch.ErrRedirect) || got.Load().URL.Path == "/elsewhere" {
		t.Errorf("redirect: %v", err)
	}
	if err := ask(p, "large"); !errors.Is(err, fetch.ErrTooLarge) {
		t.Errorf("large: %v", err)
	}
	if err := ask(place(200*time.Millisecond), "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hang: %v", err)
	}
	for _, segment := range []string{"", ".", ".."} {
		if _, err := p.Do(t.Context(), fetch.Request{Below: []string{segment}}); err == nil {
			t.Errorf("the segment %q was taken", segment)
		}
	}
	if n := seen.Load(); n != 4 {
		t.Errorf("%d requests were told of, want 4", n)
	}
}

// TestAuthenticate: Config.Authenticate decides in place of the system's CAs, for each
// connection. NewPlace refuses it for a URL without TLS.
func TestAuthenticate(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer s.Close()
	stranger := errors.New("a stranger")
	var verdict atomic.Pointer[error]
	p, err := fetch.NewPlace(s.URL, fetch.Config{Authenticate: func(c tls.ConnectionState) error {
		if len(c.PeerCertificates) != 1 || !c.PeerCertificates[0].Equal(s.Certificate()) {
			t.Errorf("judged %v", c.PeerCertificates)
		}
		if e := verdict.Load(); e != nil {
			return *e
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := p.Do(t.Context(), fetch.Request{}); err != nil || a.Status != http.StatusOK {
		t.Errorf("got %d, %v", a.Status, err)
	}
	verdict.Store(&stranger)
	s.CloseClientConnections()
	if _, err := p.Do(t.Context(), fetch.Request{}); !errors.Is(err, stranger) || asked.Load() != 1 {
		t.Errorf("asked %d times, %v", asked.Load(), err)
	}
	for _, url := range []string{"http://127.0.0.1:1", "http://localhost"} {
		if _, err := fetch.NewPlace(url, fetch.Config{Authenticate: func(tls.ConnectionState) error { return nil }}); err == nil {
			t.Errorf("%s was taken", url)
		}
	}
}

// TestOutageCostsNothing: while the last good value lives, a place that hangs
// makes one caller wait for Patience at most, and those after it not at all.
func TestOutageCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		var reads atomic.Int64
		up.Store(true)
		c, err := fetch.NewCache(fetch.CacheConfig[int]{Name: "place", Read: func(ctx context.Context) (int, time.Duration, error) {
			if n := int(reads.Add(1)); up.Load() {
				return n, 10 * time.Minute, nil
			}
			<-ctx.Done()
			return 0, 0, ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		get := func(value int, most time.Duration) {
			t.Helper()
			start := time.Now()
			if v, err := c.Get(t.Context()); err != nil || v != value || time.Since(start) > most {
				t.Errorf("got %d, %v after %v; want %d within %v", v, err, time.Since(start), value, most)
			}
		}
		get(1, 0)
		time.Sleep(8 * time.Minute)
		get(1, 0) // fetched behind the caller's back
		synctest.Wait()
		get(2, 0)
		time.Sleep(time.Hour)
		get(3, 0) // past its age: waited for
		up.Store(false)
		time.Sleep(time.Hour)
		get(3, 250*time.Millisecond)
		time.Sleep(5 * time.Second)
		for range 20 {
			get(3, 0)
			time.Sleep(31 * time.Second)
		}
		up.Store(true)
		time.Sleep(31 * time.Second)
		get(3, 0)
		synctest.Wait()
		if v, err := c.Get(t.Context()); err != nil || v <= 3 {
			t.Errorf("back again: got %d, %v", v, err)
		}
		up.Store(false)
		time.Sleep(26 * time.Hour)
		if v, err := c.Get(t.Context()); err == nil {
			t.Errorf("too stale: got %d", v)
		}
		time.Sleep(time.Minute)
	})
}

// TestWithdrawn: when the source replaces a value while no caller asks for it, the cache does not
// return the old value after its maximum age.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		value := "old"
		c, err := fetch.NewCache(fetch.CacheConfig[string]{Name: "place", Read: func(context.Context) (string, time.Duration, error) { return value, 0, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := c.Get(t.Context()); v != "old" || err != nil {
			t.Fatal(v, err)
		}
		value = "new"
		time.Sleep(time.Minute)
		if v, err := c.Get(t.Context()); v != "new" || err != nil {
			t.Errorf("got %q, %v", v, err)
		}
		if _, err := c.Renew(t.Context()); !errors.Is(err, fetch.ErrNotDue) {
			t.Errorf("renewed at once: %v", err)
		}
	})
}

// TestAgingFetchThatHangs: at most one background fetch hangs, for any number of callers
// meanwhile, and no caller costs a goroutine. Not parallel, because the test counts
// goroutines.
func TestAgingFetchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		c, err := fetch.NewCache(fetch.CacheConfig[int]{Name: "place", Read: func(ctx context.Context) (int, time.Duration, error) {
			if reads.Add(1) > 1 {
				<-ctx.Done()
				return 0, 0, ctx.Err()
			}
			return 1, 10 * time.Minute, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Minute)
		before := runtime.NumGoroutine()
		for range 1000 {
			if v, err := c.Get(t.Context()); v != 1 || err != nil {
				t.Fatal(v, err)
			}
		}
		if n := runtime.NumGoroutine() - before; n > 5 || reads.Load() > 2 {
			t.Errorf("1000 callers made %d goroutines and %d fetches", n, reads.Load())
		}
		time.Sleep(time.Minute) // the fetch has given up
		if v, err := c.Get(t.Context()); v != 1 || err != nil {
			t.Error(v, err)
		}
		if synctest.Wait(); reads.Load() != 3 {
			t.Errorf("%d fetches after the back-off, want 3", reads.Load())
		}
		time.Sleep(time.Minute)
	})
}

// TestAwait: the first byte of a good answer is news, its end is too, and nothing
// else is.
func TestAwait(t *testing.T) {
	t.Parallel()
	tell := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("do") {
		case "never":
			w.WriteHeader(http.StatusOK)
			http.NewResponseController(w).Flush() //nolint:errcheck // test
			<-r.Context().Done()
		case "wait":
			w.WriteHeader(http.StatusOK)
			http.NewResponseController(w).Flush() //nolint:errcheck // test
			select {
			case <-tell:
				w.Write([]byte("{"))                  //nolint:errcheck // test
				http.NewResponseController(w).Flush() //nolint:errcheck // test
				<-r.Context().Done()
			case <-r.Context().Done():
			}
		case "end":
		case "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "cut":
			w.Header().Set("Content-Length", "9")
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer s.Close()
	var seen atomic.Int64
	p, err := fetch.NewPlace(s.URL, fetch.Config{Timeout: 20 * time.Second, Observe: func(fetch.Event) { seen.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	await := func(ctx context.Context, do string) error {
		return p.Await(ctx, fetch.Request{Query: url.Values{"do": {do}}})
	}
	told := make(chan error, 1)
	go func() { told <- await(t.Context(), "wait") }()
	for seen.Load() == 0 { // its head has come
		time.Sleep(time.Millisecond)
	}
	if len(told) > 0 {
		t.Errorf("told of nothing: %v", <-told)
	}
	close(tell)
	if err := <-told; err != nil {
		t.Error(err)
	}
	for do, good := range map[string]bool{"end": true, "redirect": false, "cut": false, "forbidden": false} {
		if err := await(t.Context(), do); good != (err == nil) {
			t.Errorf("%s: %v", do, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := await(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up: %v", err)
	}
}

// TestConnectionsAreBounded: a slow place with many callers must not use up the machine's file
// descriptors. Requests beyond the bound wait until a connection is free or their context
// ends.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 64
	arrived, release := make(chan struct{}, bound+2), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			t.Error("one more than the bound came through")
		}
		arrived <- struct{}{}
		<-release
	}))
	defer s.Close()
	p, err := fetch.NewPlace(s.URL, fetch.Config{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, bound)
	for range bound {
		go func() {
			_, err := p.Do(t.Context(), fetch.Request{})
			done <- err
		}()
	}
	for range bound {
		<-arrived
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Do(ctx, fetch.Request{Query: url.Values{"late": {"1"}}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beyond the bound: %v", err)
	}
	close(release)
	for range bound {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Do(t.Context(), fetch.Request{}); err != nil {
		t.Error(err)
	}
}

// TestManyOverHTTP2: over HTTP/2 the bound applies to connections, and requests share them.
func TestManyOverHTTP2(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("got %s", r.Proto)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	p, err := fetch.NewPlace(s.URL, fetch.Config{RootCAs: roots, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 500 {
		go func() {
			_, err := p.Do(t.Context(), fetch.Request{})
			done <- err
		}()
	}
	for range 500 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
