package vaulttest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections to Target until it is cut.
type Proxy struct {
	Address string

	target string
	mu     sync.Mutex
	cut    bool
	conns  map[net.Conn]bool
}

// NewProxy listens on a loopback port until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens until the test ends
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: l.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); p.Cut(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(c)
		}
	}()
	return p
}

// Cut closes every connection and refuses new ones; Cut(false) accepts them again.
func (p *Proxy) Cut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.conns {
		if cut {
			_ = c.Close()
		}
	}
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[c] = true
	}
	return !p.cut
}

func (p *Proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) pass(down net.Conn) {
	defer p.forget(down)
	up, err := net.Dial("tcp", p.target) //nolint:noctx // it ends with its connection
	if err != nil {
		return
	}
	defer p.forget(up)
	if !p.keep(down) || !p.keep(up) {
		return
	}
	done := make(chan struct{}, 2)
	copying := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		done <- struct{}{}
	}
	go copying(up, down)
	go copying(down, up)
	<-done
}
