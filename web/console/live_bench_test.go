package console_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// benchListeners is the number of browsers that listen at one time. The limit
// for all is 20 MB.
const benchListeners = 200

// BenchmarkListeners keeps that many event streams open, each of which has
// received one event. It reports their memory: heap and stacks after a
// collection, compared with the same ebb without listeners. Clients are plain
// connections.
func BenchmarkListeners(b *testing.B) {
	var people []broker.Principal // several people, because of the limit per session
	for i := range benchListeners/3 + 1 {
		people = append(people, broker.Principal{ID: fmt.Sprint("p", i), Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}})
	}
	h := newFixture(b, brokertest.Config{People: people})
	h.wait(500, func(i int, r *broker.Request) { r.ExpiresAt = h.Clock.Now().Add(time.Hour) })
	srv := httptest.NewServer(h.mux)
	defer srv.Close()
	defer srv.CloseClientConnections()
	cost := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	var most uint64
	for b.Loop() {
		var requests []string
		for i := range benchListeners {
			if i%3 == 0 { // three connections are allowed for a session
				var cookies []string
				for name, value := range h.as(people[i/3].ID).cookies {
					cookies = append(cookies, name+"="+value)
				}
				requests = append(requests, fmt.Sprintf("GET /events HTTP/1.1\r\nHost: %s\r\nSec-Fetch-Site: same-origin\r\nCookie: %s\r\n\r\n", srv.Listener.Addr(), strings.Join(cookies, "; ")))
			}
		}
		before := cost()
		conns := make([]net.Conn, benchListeners)
		for i := range conns {
			conns[i] = opens(b, srv, requests[i/3])
		}
		for _, c := range conns { // one read of the approval store, made once per second, notifies all of them
			told(b, c)
		}
		if after := cost(); after > before {
			most = max(most, after-before)
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}
	b.ReportMetric(float64(most)/(1<<20), "MB")
	b.ReportMetric(float64(most)/1024/benchListeners, "KB/client")
}

// opens opens a stream.
func opens(b *testing.B, srv *httptest.Server, request string) net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Write([]byte(request)); err != nil {
		b.Fatal(err)
	}
	return c
}

// told reads until the stream has sent an event.
func told(b *testing.B, c net.Conn) {
	b.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		b.Fatal(err)
	}
	var part [8 << 10]byte
	for n := 0; ; {
		k, err := c.Read(part[n:])
		n += k
		if bytes.Contains(part[:n], []byte("data: ")) {
			return
		}
		if err != nil || n == len(part) {
			b.Fatalf("%v: %s", err, part[:n])
		}
	}
}
