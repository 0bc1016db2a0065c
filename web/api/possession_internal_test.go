package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/web"
)

// sharer is an API that computes the origin of requests.
func sharer(t *testing.T, trusted ...string) *clientAuth {
	t.Helper()
	proxies, err := web.ParseProxies(trusted)
	if err != nil {
		t.Fatal(err)
	}
	m, err := web.New(web.Config{PublicURL: "https://ebb.test", Proxies: proxies})
	if err != nil {
		t.Fatal(err)
	}
	return &clientAuth{mux: m, proxies: m.Proxies()}
}

// Shared limits are divided by origin, which one client cannot easily multiply:
// the address, or for IPv6 the /64 network.
func TestFrom(t *testing.T) {
	t.Parallel()
	a := sharer(t, "10.0.0.0/8")
	for name, c := range map[string]struct{ peer, forwarded, want string }{
		"an address":                        {"192.0.2.1:1", "", "192.0.2.1"},
		"its neighbour":                     {"192.0.2.2:1", "", "192.0.2.2"},
		"another port":                      {"192.0.2.1:65535", "", "192.0.2.1"},
		"IPv6":                              {"[2001:db8:1:2:3:4:5:6]:1", "", "2001:db8:1:2::/64"},
		"the same network":                  {"[2001:db8:1:2:ffff::1]:1", "", "2001:db8:1:2::/64"},
		"the next network":                  {"[2001:db8:1:3::1]:1", "", "2001:db8:1:3::/64"},
		"an interface of this machine":      {"[fe80::1%eth0]:1", "", "fe80::/64"},
		"IPv4 in IPv6":                      {"[::ffff:192.0.2.1]:1", "", "192.0.2.1"},
		"behind a proxy":                    {"10.0.0.1:1", "192.0.2.1", "192.0.2.1"},
		"IPv6 behind a proxy":               {"10.0.0.1:1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		"a zone that a client made up":      {"10.0.0.1:1", "2001:db8:1:2::1%x", "2001:db8:1:2::/64"},
		"what a client wrote before":        {"10.0.0.1:1", "203.0.113.9, 192.0.2.1", "192.0.2.1"},
		"a header of a stranger":            {"198.51.100.1:1", "192.0.2.1", "198.51.100.1"},
		"no address, where no kernel knows": {"@", "", "local"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/oauth2/token", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := a.from(r); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestFromSocket: a local process is identified by its user, regardless of its
// headers and of the number of the user's processes.
func TestFromSocket(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		counterpart.Missing(t, "peer-pidfd", "only Linux says which process connects")
	}
	dir, err := os.MkdirTemp("", "ebb") // the path of a Unix socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := web.ListenUnix(t.Context(), path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	a := sharer(t, "127.0.0.1")
	srv := web.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, a.from(r)) }), web.Limits{}, nil)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	for range 2 { // two connections
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://ebb.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := "uid " + strconv.Itoa(os.Getuid()); err != nil || string(got) != want {
			t.Errorf("got %q, want %q, %v", got, want, err)
		}
	}
}
