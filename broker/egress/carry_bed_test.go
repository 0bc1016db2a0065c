package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

// doorway is the listener of a Forwarder whose connections a test makes, in a synctest bubble.
type doorway struct {
	conns chan net.Conn
	fails chan error
	gone  chan struct{}
	once  sync.Once
}

// carrying has c serve a doorway until the test ends.
func carrying(t *testing.T, c egress.Forwarder) (d *doorway, end func()) {
	d = &doorway{conns: make(chan net.Conn), fails: make(chan error), gone: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, d) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Cleanup(end)
	return d, end
}

// connect returns the sandbox's side of a new connection.
func (d *doorway) connect() net.Conn {
	here, there := net.Pipe()
	d.conns <- there
	return here
}

func (d *doorway) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case err := <-d.fails:
		return nil, err
	case <-d.gone:
		return nil, net.ErrClosed
	}
}

func (d *doorway) Close() error {
	d.once.Do(func() { close(d.gone) })
	return nil
}

func (d *doorway) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "doorway"} }

// greeter returns a connection to an ebb that sends a greeting and hangs up.
func greeter() io.ReadWriteCloser {
	here, there := net.Pipe()
	go func() {
		_, _ = io.WriteString(there, "hello")
		_ = there.Close()
	}()
	return here
}

var errBusyNow = fmt.Errorf("just now: %w", egress.ErrBusy)

// said returns all data that a connection of the sandbox receives, and how long that took.
func said(c net.Conn) (string, time.Duration) {
	began := time.Now()
	all, _ := io.ReadAll(c)
	return string(all), time.Since(began)
}
