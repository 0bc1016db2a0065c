//go:build linux

package egress_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress"
)

// TestDoor (E105): the kernel identifies a sandbox by its network namespace on the machine of the
// runner, too. No peer is admitted before Register, and afterwards only peers in that namespace.
//
//ebb:invariant I6 On the runner's machine, the egress socket of a sandbox admits only processes in the network namespace of that sandbox
//ebb:invariant I6 A forwarding listener refuses its own process's network namespace as the namespace of the sandbox
func TestDoor(t *testing.T) {
	t.Parallel()
	x := broker.EgressEndpoint{ID: "egr_0123456789abcdef0123456789abcdef"}
	var strangers, dials atomic.Int32
	listener, err := egress.NewListener(t.TempDir(), x, broker.EndpointByKernel, func(uint64, error) { strangers.Add(1) })
	if err != nil {
		counterpart.Missing(t, "peer-pidfd", err.Error())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- egress.Forwarder{Dial: func(context.Context) (io.ReadWriteCloser, error) {
			dials.Add(1)
			return nil, errors.New("ebb is not there")
		}}.Serve(ctx, listener)
	}()
	in, other := isolated(t, listener.Socket()), isolated(t, listener.Socket())
	in.ask() // too early: it waits
	var own syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &own); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []uint64{0, own.Ino} {
		if err := listener.Register(ns); err == nil {
			t.Errorf("registered %d", ns)
		}
	}
	if err := listener.Register(in.namespace); err != nil {
		t.Fatal(err)
	}
	if got := in.answer(t); got != "HTTP/1.1 503 Service Unavailable" {
		t.Errorf("the sandbox: %q", got)
	}
	other.ask()
	if got := other.answer(t); got != "" {
		t.Errorf("another sandbox: %q", got)
	}
	if got := asked(listener.Socket()); got != "" {
		t.Errorf("a process outside: %q", got)
	}
	until(t, "its runner is notified of both", func() bool { return strangers.Load() == 2 })
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections were forwarded", n)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Lstat(listener.Socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its socket is left: %v", err)
	}
}

// TestDoorBelievesLittle: the id of an endpoint becomes a path here, and is checked; without an
// identity no listener is made.
//
//ebb:invariant I6 A forwarding listener validates the endpoint ID from ebb before the ID becomes part of a path
func TestDoorBelievesLittle(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "egr_", "0123456789abcde/", "egr_/../../../../../" + strings.Repeat("x", 16), "egr_0123456789ABCDEF"} {
		if d, err := egress.NewListener(t.TempDir(), broker.EgressEndpoint{ID: id}, broker.EndpointBySocket, nil); err == nil {
			_ = d.Close()
			t.Errorf("a socket for %q", id)
		}
	}
	for _, by := range []broker.EndpointIdentity{"", broker.EndpointByRunner} {
		if d, err := egress.NewListener(t.TempDir(), broker.EgressEndpoint{ID: "egr_0123456789abcdef"}, by, nil); err == nil {
			_ = d.Close()
			t.Errorf("known by %q", by)
		}
	}
}
