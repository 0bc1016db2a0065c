package egress_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
)

// pipes is a listener with connections inside this process.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipes"} }

// E100: an endpoint whose slots are all taken by silent connections ends with its task at once,
// like any other.
func TestEndOfAFullEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := egress.New(egress.Config{Leases: struct{ egress.Leases }{}, Record: struct{ egress.Record }{}, Dialer: &egress.Dialer{}, Connections: 2})
		if err != nil {
			t.Fatal(err)
		}
		ca, err := egress.NewCA("tsk_1", time.Now().Add(time.Hour), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		ended := make(chan error)
		go func() { ended <- p.Serve(t.Context(), l, broker.Caller{TaskID: "tsk_1"}, ca) }()
		for range 2 {
			sandbox, proxy := net.Pipe()
			defer sandbox.Close()
			l.conns <- proxy
		}
		synctest.Wait()
		before := time.Now()
		p.End("tsk_1")
		if err := <-ended; err == nil || time.Now().After(before) {
			t.Errorf("it ended %v after its task: %v", time.Since(before), err)
		}
	})
}
