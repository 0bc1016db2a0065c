package egress_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ebb/broker/egress"
)

// hungUp is a connection whose box has nothing more to say, and listens still.
type hungUp struct{ net.Conn }

func (hungUp) Read([]byte) (int, error) { return 0, io.EOF }

// heedless is a connection to an ebb that goes on when it has heard that nothing more comes.
type heedless struct{ net.Conn }

func (heedless) CloseWrite() error { return nil }

// handedTo are both ends of a connection that is handed on: the box's and ebb's. over wraps the door's end
// of it.
func handedTo(t *testing.T, over func(net.Conn) net.Conn) (box, ebb net.Conn) {
	way, ebb := net.Pipe()
	d, _ := carrying(t, egress.Carrier{Dial: func(context.Context) (io.ReadWriteCloser, error) { return heedless{way}, nil }})
	box, there := net.Pipe()
	d.conns <- over(there)
	return box, ebb
}

// TestCarrierLate: when the box has hung up, a reply may be as long as it is while it comes, and not for two
// minutes if nothing comes of it.
func TestCarrierLate(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			box, ebb := handedTo(t, func(c net.Conn) net.Conn { return hungUp{c} })
			go func() {
				for range n {
					time.Sleep(119 * time.Second)
					_, _ = ebb.Write([]byte{'x'})
				}
			}()
			if out, took := said(box); out != strings.Repeat("x", n) || took != time.Duration(n)*119*time.Second+2*time.Minute {
				t.Errorf("%q in %s", out, took)
			}
			synctest.Wait()
			if _, err := ebb.Write([]byte{'x'}); err == nil {
				t.Error("ebb's end is open")
			}
		})
	}
}

// TestCarrierLateUnread: nor is a reply awaited for ever that the box does not read.
func TestCarrierLateUnread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, ebb := handedTo(t, func(c net.Conn) net.Conn { return hungUp{c} })
		began := time.Now()
		for {
			if _, err := ebb.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		if _, err := box.Write([]byte{'x'}); err == nil {
			t.Error("the box's end is open")
		}
	})
}

// TestCarrierIsPatient: a connection whose box has not hung up stays, whatever comes and however late.
func TestCarrierIsPatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box, ebb := handedTo(t, func(c net.Conn) net.Conn { return c })
		go func() {
			for range 3 {
				_, _ = ebb.Write([]byte{'x'})
				time.Sleep(time.Hour)
			}
			_ = ebb.Close()
		}()
		if out, took := said(box); out != "xxx" || took != 3*time.Hour {
			t.Errorf("%q in %s", out, took)
		}
	})
}
