package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

// TestCarrierTriesAgain: a call that returns ErrBusy is repeated, with pauses that grow to a
// second.
func TestCarrierTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		d, _ := carrying(t, egress.Forwarder{
			Dial: func(context.Context) (io.ReadWriteCloser, error) {
				if dials.Add(1) <= 8 {
					return nil, errBusyNow
				}
				return greeter(), nil
			},
			Failed: func(err error) { t.Errorf("it failed: %v", err) },
		})
		want := (20+40+80+160+320+640)*time.Millisecond + 2*time.Second
		if out, took := said(d.connect()); out != "hello" || took != want {
			t.Errorf("%q after %s, want %s", out, took, want)
		}
	})
}

// TestCarrierGivesUp: a connection that is not forwarded within 30 s gets a refusal, regardless of
// the cause of the wait, and later connections are forwarded.
func TestCarrierGivesUp(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) (io.ReadWriteCloser, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, c := range map[string]struct {
		dial func(context.Context) (io.ReadWriteCloser, error)
		why  error
	}{
		"it is busy":         {func(context.Context) (io.ReadWriteCloser, error) { return nil, errBusyNow }, egress.ErrBusy},
		"it does not answer": {hang, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var back atomic.Bool
				var failed []error
				d, end := carrying(t, egress.Forwarder{
					Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
						if back.Load() {
							return greeter(), nil
						}
						return c.dial(ctx)
					},
					Failed: func(err error) { failed = append(failed, err) },
				})
				var all sync.WaitGroup
				for range 5 {
					conn := d.connect()
					all.Go(func() {
						out, took := said(conn)
						if !strings.HasPrefix(out, "HTTP/1.1 503 ") || took != 30*time.Second {
							t.Errorf("%.60q after %s", out, took)
						}
					})
				}
				all.Wait()
				back.Store(true)
				if out, _ := said(d.connect()); out != "hello" {
					t.Errorf("the next: %q", out)
				}
				end()
				if len(failed) != 1 || !errors.Is(failed[0], c.why) {
					t.Errorf("told: %v, want once %v", failed, c.why)
				}
			})
		})
	}
}

// TestCarrierTurnIsLate: the same limit applies to a connection that waits for its turn, the first
// or a later one.
func TestCarrierTurnIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		var failed []error
		d, end := carrying(t, egress.Forwarder{
			Dial: func(context.Context) (io.ReadWriteCloser, error) {
				if dials.Add(1) == 1 {
					return nil, errBusyNow
				}
				time.Sleep(time.Minute) // regardless of its context
				return nil, errors.New("ebb is not there")
			},
			Failed: func(err error) { failed = append(failed, err) },
		})
		again := d.connect()
		synctest.Wait()
		for range 4 {
			_ = d.connect()
		}
		synctest.Wait()
		time.Sleep(time.Millisecond) // so that the connection before fails first
		began, first := time.Now(), d.connect()
		for _, c := range []net.Conn{again, first} {
			if out, _ := said(c); !strings.HasPrefix(out, "HTTP/1.1 503 ") {
				t.Errorf("%.60q", out)
			}
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("the last has waited for %s", took)
		}
		end()
		if len(failed) == 0 || !errors.Is(failed[0], egress.ErrBusy) {
			t.Errorf("told: %v", failed)
		}
	})
}

// TestCarrierEndsMeanwhile: when the Forwarder ends, in a pause, in Dial or in the wait for a turn,
// no connection gets a refusal.
func TestCarrierEndsMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		d, end := carrying(t, egress.Forwarder{
			Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
				if dials.Add(1) == 1 {
					return nil, errBusyNow
				}
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Failed: func(err error) { t.Errorf("it failed: %v", err) },
		})
		var all sync.WaitGroup
		for range 6 {
			conn := d.connect()
			all.Go(func() {
				if out, took := said(conn); out != "" || took != 0 {
					t.Errorf("%q after %s", out, took)
				}
			})
		}
		synctest.Wait()
		end()
		all.Wait()
	})
}
