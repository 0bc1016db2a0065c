package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// ends returns all actions that disconnect the requests of a lease.
func (b *bed) ends(t *testing.T) map[string]func(task, lease string) error {
	ops := b.Principals[brokertest.Operator]
	return map[string]func(task, lease string) error{
		"completed": func(task, _ string) error { _, err := b.Broker.CompleteTask(t.Context(), ops, task, 0); return err },
		"paused":    func(task, _ string) error { _, err := b.Broker.PauseTask(t.Context(), ops, task, "look"); return err },
		"revoked": func(_, lease string) error {
			_, err := b.Broker.RevokeLease(t.Context(), ops, lease, "test")
			return err
		},
	}
}

// cutEarly sends a request, disconnects it when begun returns, and waits for its end in the sandbox
// and in the audit log.
func (b *bed) cutEarly(t *testing.T, how string, begun func()) {
	t.Helper()
	x, _ := b.opened(t, "")
	tok, err := x.s.Ask(t, "stripe:charges:read")
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, _, err := try(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+tok.Token.Reveal())
		answered <- err
	}()
	begun()
	if err := b.ends(t)[how](x.s.Task.ID, tok.LeaseID); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err == nil {
		t.Errorf("%s: it is answered", how)
	}
	if end := b.over(t, x.s.Task.ID); !end.Cut || end.Status != 0 {
		t.Errorf("%s: the audit log has %+v", how, end)
	}
}

// shy is a listener whose connections a test gets, and no server answers.
type shy struct {
	net.Listener
	to chan net.Conn
}

func (l *shy) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.to <- c
	}
}

// E100: a disconnection does not wait for an upstream in the middle of its handshake: the
// connection is closed, and only the beginning of TLS was sent.
//
//ebb:invariant I2 A disconnection closes an upstream connection whose TLS handshake is in progress
func TestCutInAHandshake(t *testing.T) {
	t.Parallel()
	came := make(chan net.Conn, 1)
	b := newBed(t, echo, func(s *httptest.Server) { s.Listener = &shy{Listener: s.Listener, to: came} })
	for how := range b.ends(t) {
		var c net.Conn
		b.cutEarly(t, how, func() {
			c = <-came
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // the first byte of the ClientHello
				t.Error(err)
			}
		})
		// The handshake itself times out after 10 seconds; the disconnection must be faster.
		_ = c.SetReadDeadline(time.Now().Add(8 * time.Second))
		var late net.Error
		if rest, err := io.ReadAll(c); errors.As(err, &late) && late.Timeout() {
			t.Errorf("%s: the connection stays, after %d bytes", how, len(rest))
		}
		_ = c.Close()
	}
	if got := b.arrived(); len(got) > 0 {
		t.Errorf("%d requests have arrived", len(got))
	}
}

// E100: a disconnection does not wait for a resolver either: the lookup ends, and nothing is
// dialled.
//
//ebb:invariant I2 The disconnection of a task or lease stops its DNS lookups in progress, and the egress proxy dials no further connection for it
func TestCutInALookup(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	asked, over := make(chan struct{}, 1), make(chan error, 1)
	b.names.before = func(ctx context.Context) {
		asked <- struct{}{}
		select {
		case <-ctx.Done():
			over <- nil
		case <-time.After(patience):
			over <- errors.New("it is asked on")
		}
	}
	for how := range b.ends(t) {
		b.cutEarly(t, how, func() { <-asked })
		if err := <-over; err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	if got := b.arrived(); len(got) > 0 {
		t.Errorf("%d requests have arrived", len(got))
	}
}
