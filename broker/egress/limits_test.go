package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

// fetch sends a request that may outlive the test and returns its status; 0 = it failed, and the
// failure was logged.
func (x *sandbox) fetch(t *testing.T, c *http.Client, placeholder string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "https://"+x.b.host+"/v1/x", nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+placeholder)
	res, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// peak measures how many calls run at one time.
type peak struct {
	mu       sync.Mutex
	now, top int
}

// enter counts a call until leave.
func (p *peak) enter() (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	p.top = max(p.top, p.now)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now--
	}
}

func (p *peak) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.top
}

// E110: the connections of a sandbox are limited: a further one waits until one ends.
//
//ebb:invariant I12 The number of connections of a sandbox to its egress endpoint is limited
func TestConnectionsOfASandbox(t *testing.T) {
	t.Parallel()
	const most = 64
	var here atomic.Int32
	over := make(chan struct{})
	b := newBed(t, func(http.ResponseWriter, *http.Request) {
		here.Add(1)
		<-over
	})
	release := sync.OnceFunc(func() { close(over) })
	defer release()
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	var wg sync.WaitGroup
	for range most {
		c := x.client(t, false)
		wg.Go(func() {
			x.fetch(t, c, p)
			c.CloseIdleConnections()
		})
	}
	until(t, "all that may have arrived", func() bool { return here.Load() == most })
	c, err := x.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", b.host, b.host)
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); err == nil || n != 0 {
		t.Error("a connection beyond the limit was served")
	}
	release()
	wg.Wait()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("it was not served when there was room: %v", err)
	}
}

// E50: a client that opens a tunnel and sends nothing loses it, and so does one that does not
// complete the headers of a request.
//
//ebb:invariant I12 The time for the TLS handshake in a tunnel is limited
//ebb:invariant I12 The time in which a sandbox must send the headers of a request is limited
func TestSilentTunnel(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	connect := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n", b.host, b.host)
	for name, say := range map[string]string{"half of CONNECT": connect, "a tunnel": connect + "\r\n", "half a request": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c net.Conn
			var err error
			if say != "" {
				c, err = x.dial()
			} else if c, err = x.tunnelTo(t, b.host, "api.example.com"); err == nil {
				say = "GET /v1/x HTTP/1.1\r\nHost: " + b.host + "\r\n"
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(c, say); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("it stays open: %v", err)
			}
		})
	}
}

// E110: HTTP/2 streams do not raise the number of requests: a limited number of a sandbox run, and
// a further one waits until one ends.
//
//ebb:invariant I12 The number of requests of a sandbox in progress is limited, over all of its connections
func TestRequestsOfASandbox(t *testing.T) {
	t.Parallel()
	const most = 4
	var here peak
	over := make(chan struct{})
	b := newBed(t, func(http.ResponseWriter, *http.Request) {
		defer here.enter()()
		<-over
	})
	release := sync.OnceFunc(func() { close(over) })
	defer release()
	b.cfg.Requests = most
	var err error
	if b.proxy, err = egress.New(b.cfg); err != nil {
		t.Fatal(err)
	}
	x := b.sandbox(t)
	p, c := x.placeholder(t, "stripe:charges:read"), x.client(t, true)
	var wg sync.WaitGroup
	var done atomic.Int32
	for range 5 * most {
		wg.Go(func() {
			if x.fetch(t, c, p) == http.StatusOK {
				done.Add(1)
			}
		})
	}
	until(t, "all that may have arrived", func() bool { return here.most() == most })
	time.Sleep(100 * time.Millisecond) // for requests beyond the limit
	release()
	wg.Wait()
	if here.most() != most || done.Load() != 5*most {
		t.Errorf("%d ran at one time, want %d; %d of %d were answered", here.most(), most, done.Load(), 5*most)
	}
}
