package egress

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// unread is a connection whose peer does not read: a write blocks until the connection is closed,
// regardless of its deadline.
type unread struct {
	net.Conn
	full   chan struct{} // closed when the buffers are full
	closed chan struct{}
	once   sync.Once
}

func (c *unread) Write(p []byte) (int, error) {
	select {
	case <-c.full:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return c.Conn.Write(p)
	}
}

func (c *unread) SetWriteDeadline(time.Time) error { return nil }

func (c *unread) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// While the endpoint is open, closing a connection waits at most closeGrace for a runner that does
// not read. After the end of the endpoint it does not wait.
//
//ebb:invariant I6 While a remote egress endpoint is open, closing one connection waits at most one second for a runner that does not read
func TestApartCloses(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("tsk_0", time.Now().Add(time.Hour), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Leaf("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for over, want := range map[bool]time.Duration{false: closeGrace, true: 0} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			stuck := &unread{Conn: there, full: make(chan struct{}), closed: make(chan struct{})}
			srv := tls.Server(stuck, &tls.Config{Certificates: []tls.Certificate{*leaf}, SessionTicketsDisabled: true})
			shaken := make(chan error, 1)
			go func() { shaken <- srv.Handshake() }()
			c := tls.Client(here, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what is asked here is another question
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			if err := <-shaken; err != nil {
				t.Fatal(err)
			}
			close(stuck.full)
			gone := make(chan struct{})
			if over {
				close(gone)
			}
			a := &remoteConn{srv, gone}
			begin := time.Now()
			_ = a.Close()
			if waited := time.Since(begin); waited != want {
				t.Errorf("endpoint closed: %v; the connection was closed after %s, want %s", over, waited, want)
			}
			select {
			case <-stuck.closed:
			default:
				t.Error("it is not closed")
			}
			_ = here.Close()
		})
	}
}
