package web_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/web"
)

// shortDir returns a directory whose path is short enough for a Unix socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func listen(t *testing.T, path string, mode os.FileMode) net.Listener {
	t.Helper()
	l, err := web.ListenUnix(t.Context(), path, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestListenUnixPlace(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	path := filepath.Join(dir, "made", "s")
	l := listen(t, path, 0o660)
	for name, want := range map[string]os.FileMode{path: os.ModeSocket | 0o660, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if _, err := web.ListenUnix(t.Context(), path, 0o600); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("in use: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("closing leaves the socket: %v", err)
	}

	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // as after a kill
	_ = stale.Close()
	listen(t, path, 0o600)

	for name, make := range map[string]func(string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte("keep"), 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"dangling":  func(p string) error { return os.Symlink(filepath.Join(dir, "nowhere"), p) },
		"to socket": func(p string) error { return os.Symlink(path, p) },
	} {
		p := filepath.Join(dir, name)
		if err := make(p); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(p)
		if _, err := web.ListenUnix(t.Context(), p, 0o600); err == nil {
			t.Errorf("%s: replaced", name)
		}
		if after, err := os.Lstat(p); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is another: %v", name, err)
		}
	}

	for _, bad := range []string{"s", "@s", "", filepath.Join(dir, strings.Repeat("x", web.MaxSocketPath))} {
		if _, err := web.ListenUnix(t.Context(), bad, 0o600); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := web.ListenUnix(t.Context(), filepath.Join(open, "s"), 0o600); err == nil || !strings.Contains(err.Error(), "writable by others") {
		t.Errorf("a directory of everybody: %v", err)
	}
}

// seen is the data that a handler behind the socket sees.
type seen struct {
	peer   *attest.Peer
	remote string
	header http.Header
	alive  bool
}

// serveSocket serves on a socket and sends that data to the test.
func serveSocket(t *testing.T, trusted []string) (path string, saw <-chan seen) {
	t.Helper()
	proxies, err := web.ParseProxies(trusted)
	if err != nil {
		t.Fatal(err)
	}
	m := newMux(t, web.Config{PublicURL: "https://ebb.test", Proxies: proxies})
	out := make(chan seen, 16)
	m.AddRoot(http.MethodGet, "/", func(c echo.Context) error {
		r := c.Request()
		p := web.Peer(r.Context())
		out <- seen{peer: p, remote: r.RemoteAddr, header: r.Header, alive: p != nil && isOpen(p.PIDFD)}
		return c.NoContent(http.StatusNoContent)
	})
	path = filepath.Join(shortDir(t), "s")
	l := listen(t, path, 0o600)
	srv := web.NewServer(m, web.Limits{}, nil)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return path, out
}

// isOpen asks the system, because the number could belong to another file.
func isOpen(fd int) bool {
	to, err := os.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(fd)))
	return err == nil && strings.Contains(to, "pidfd")
}

func TestPeer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		counterpart.Missing(t, "peer-pidfd", "only Linux says which process connects")
	}
	path, saw := serveSocket(t, nil)
	conn := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	var first *attest.Peer
	for range 2 { // both requests by one connection
		askOver(t, conn)
		got := <-saw
		if got.peer == nil || got.peer.PID != os.Getpid() || got.peer.UID != uint32(os.Getuid()) || got.peer.GID != uint32(os.Getgid()) || got.remote != path {
			t.Fatalf("got %+v", got)
		}
		if first == nil {
			first = got.peer
		}
		if got.peer != first || got.alive != (first.PIDFD >= 0) {
			t.Errorf("got %+v, first %+v", got, first)
		}
	}
	conn.CloseIdleConnections()
	if first.PIDFD < 0 {
		counterpart.Missing(t, "peer-pidfd", "SO_PEERPIDFD needs Linux 6.5")
	}
	for end := time.Now().Add(2 * time.Minute); isOpen(first.PIDFD); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the pidfd stays open after its connection")
		}
	}
}

func askOver(t *testing.T, rt http.RoundTripper) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://ebb.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", "192.0.2.66")
	req.Header.Set("Client-Cert", ":AAAA:")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// A process chooses the address of its own end. One that looks like a trusted
// proxy must not make ebb accept its headers.
func TestPeerIsNoProxy(t *testing.T) {
	path, saw := serveSocket(t, []string{"10.0.0.1/32"})
	t.Chdir(shortDir(t))
	askOver(t, &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.UnixAddr{Name: "10.0.0.1:443", Net: "unix"}}).DialContext(ctx, "unix", path)
	}})
	got := <-saw
	if got.remote != path || got.header.Get("Client-Cert") != "" || got.header.Get("X-Forwarded-For") != "" {
		t.Errorf("believed %+v", got)
	}
}
