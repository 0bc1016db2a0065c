package egress_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

// hungUp is a connection whose sandbox has ended its direction and still reads.
type hungUp struct{ net.Conn }

func (hungUp) Read([]byte) (int, error) { return 0, io.EOF }

// heedless is a connection to an ebb that continues after the sandbox has ended its direction.
type heedless struct{ net.Conn }

func (heedless) CloseWrite() error { return nil }

// handedTo returns both ends of a forwarded connection: the sandbox's and ebb's. over wraps the end
// of the listener.
func handedTo(t *testing.T, over func(net.Conn) net.Conn) (sandbox, ebb net.Conn) {
	way, ebb := net.Pipe()
	d, _ := carrying(t, egress.Forwarder{Dial: func(context.Context) (io.ReadWriteCloser, error) { return heedless{way}, nil }})
	sandbox, there := net.Pipe()
	d.conns <- over(there)
	return sandbox, ebb
}

// TestCarrierLate: after the sandbox has ended its direction, a reply may last as long as data
// arrives, but not two minutes without data.
func TestCarrierLate(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			sandbox, ebb := handedTo(t, func(c net.Conn) net.Conn { return hungUp{c} })
			go func() {
				for range n {
					time.Sleep(119 * time.Second)
					_, _ = ebb.Write([]byte{'x'})
				}
			}()
			if out, took := said(sandbox); out != strings.Repeat("x", n) || took != time.Duration(n)*119*time.Second+2*time.Minute {
				t.Errorf("%q in %s", out, took)
			}
			synctest.Wait()
			if _, err := ebb.Write([]byte{'x'}); err == nil {
				t.Error("ebb's end is open")
			}
		})
	}
}

// TestCarrierLateUnread: the same limit applies to a reply that the sandbox does not read.
func TestCarrierLateUnread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sandbox, ebb := handedTo(t, func(c net.Conn) net.Conn { return hungUp{c} })
		began := time.Now()
		for {
			if _, err := ebb.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		if _, err := sandbox.Write([]byte{'x'}); err == nil {
			t.Error("the sandbox's end is open")
		}
	})
}

// TestCarrierIsPatient: while the sandbox has not ended its direction, a connection stays open,
// however late data arrives.
func TestCarrierIsPatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sandbox, ebb := handedTo(t, func(c net.Conn) net.Conn { return c })
		go func() {
			for range 3 {
				_, _ = ebb.Write([]byte{'x'})
				time.Sleep(time.Hour)
			}
			_ = ebb.Close()
		}()
		if out, took := said(sandbox); out != "xxx" || took != 3*time.Hour {
			t.Errorf("%q in %s", out, took)
		}
	})
}
