package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

// TestCarrierTurns: at most four calls of Dial run at one time, and a call in a pause does not
// count.
func TestCarrierTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		answer := make(chan error)
		d, _ := carrying(t, egress.Forwarder{Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			dials.Add(1)
			select {
			case err := <-answer:
				return nil, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		for range 9 {
			_ = d.connect()
		}
		for _, want := range []int32{4, 8} { // the busy ones pause, and no time has passed
			if synctest.Wait(); dials.Load() != want {
				t.Fatalf("called %d times, want %d", dials.Load(), want)
			}
			for range 4 {
				answer <- errBusyNow
			}
		}
		if synctest.Wait(); dials.Load() != 9 {
			t.Errorf("called %d times: the ninth is kept from its turn", dials.Load())
		}
	})
}

// TestCarrierPace: the maximum number of connections, all of them told to try again, does not call
// Dial more often than a sandbox may connect.
func TestCarrierPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		d, _ := carrying(t, egress.Forwarder{Dial: func(context.Context) (io.ReadWriteCloser, error) {
			dials.Add(1)
			return nil, errBusyNow
		}})
		for range 64 {
			_ = d.connect()
		}
		time.Sleep(10 * time.Second)
		if n := dials.Load(); n < 400 || n > 64+10*50 {
			t.Errorf("called %d times in 10 s", n)
		}
		_, more := net.Pipe()
		select {
		case d.conns <- more:
			t.Error("there is a 65th connection")
		case <-time.After(time.Second):
		}
	})
}

// TestCarrierAcceptFails: Serve continues after a failed Accept, and reports the failure once a
// second.
func TestCarrierAcceptFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noRoom := errors.New("too many open files")
		var failed []error
		d, end := carrying(t, egress.Forwarder{
			Dial:   func(context.Context) (io.ReadWriteCloser, error) { return greeter(), nil },
			Failed: func(err error) { failed = append(failed, err) },
		})
		began := time.Now()
		for range 70 { // more than the maximum number of connections
			d.fails <- noRoom
		}
		if out, _ := said(d.connect()); out != "hello" {
			t.Errorf("%q", out)
		}
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("70 failures took %s", took)
		}
		end()
		if len(failed) != 7 || !errors.Is(failed[0], noRoom) {
			t.Errorf("told %d times: %v", len(failed), failed)
		}
	})
	synctest.Test(t, func(t *testing.T) { // without Failed
		d, _ := carrying(t, egress.Forwarder{Dial: func(context.Context) (io.ReadWriteCloser, error) { return greeter(), nil }})
		d.fails <- errors.New("too many open files")
		if out, _ := said(d.connect()); out != "hello" {
			t.Errorf("%q", out)
		}
	})
}
