package egress

import (
	"crypto/tls"
	"log"
	"net"
	"sync"

	"ebb/broker"
)

// box is one box while it is served.
type box struct {
	p     *Proxy
	who   broker.Caller
	ca    *CA
	free  *free
	bares bares
	// of databases, that are open
	sessions sessions
	slots    chan struct{}
	busy     chan struct{} // requests under way
	tunnels  chan net.Conn // decrypted ones, on their way to the inner server

	tls      *tls.Config // of tunnels
	errorLog *log.Logger // of its servers

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

// keep registers a connection so that close reaches it; false: too late, it is closed.
func (b *box) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = c.Close()
		return false
	}
	b.open[c] = true
	return true
}

func (b *box) forget(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

// close ends all connections of the box at once: nothing is flushed, no farewell sent.
func (b *box) close(l net.Listener) {
	_ = l.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for c := range b.open {
		_ = c.Close()
	}
}
