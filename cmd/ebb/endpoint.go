package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// endpoint forwards the connections of a sandbox from a socket of this process
// to ebb. A restart of ebb closes the endpoint there; endpoint then opens it
// again with the same ID, and so with the CA that the sandbox trusts.
type endpoint struct {
	o    *client.Operator
	spec wire.EgressEndpointSpec
	// find checks the socket that ebb returned and opens its directory; nil = ebb
	// is on another machine.
	find func(socket string) (*os.File, error)

	mu        sync.Mutex
	state     wire.EgressEndpoint
	opened    int           // how many times the endpoint was opened
	namespace uint64        // of the sandbox, if it was registered at ebb; 0 = not yet
	to        *net.UnixConn // to state.Socket; nil = not connected
}

// open opens the endpoint at ebb, also again after a restart of ebb.
func (e *endpoint) open(ctx context.Context, taskID string) error {
	spec := e.spec
	spec.ID = e.state.ID
	b, err := e.o.Endpoints.Open(ctx, taskID, spec)
	if err == nil && e.namespace != 0 {
		_, err = e.o.Endpoints.Register(ctx, b, e.namespace)
	}
	if err != nil {
		return err
	}
	e.state = b
	e.opened++
	return nil
}

// register tells ebb the network namespace of the sandbox.
func (e *endpoint) register(ctx context.Context, namespace uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.o.Endpoints.Register(ctx, e.state, namespace); err != nil {
		return err
	}
	e.namespace = namespace
	return nil
}

// connect connects to the socket of an ebb on this machine.
func (e *endpoint) connect(ctx context.Context) error {
	dir, err := e.find(e.state.Socket)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	c, err := new(net.Dialer).DialContext(ctx, "unix", e.state.Socket)
	if err != nil {
		return err
	}
	e.to = c.(*net.UnixConn)
	return nil
}

// pass passes a connection to an ebb on this machine. It implements
// egress.Forwarder's Pass.
func (e *endpoint) pass(ctx context.Context, c *net.UnixConn) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.to == nil && e.connect(ctx) != nil {
		if err := e.open(ctx, e.state.TaskID); err != nil {
			return restarting(err)
		}
		if err := e.connect(ctx); err != nil {
			return restarting(err)
		}
	}
	to := e.to
	defer context.AfterFunc(ctx, func() { _ = to.Close() })()
	err := egress.Pass(to, c)
	if err != nil {
		_ = to.Close()
		e.to = nil
		err = fmt.Errorf("%w: %w", egress.ErrBusy, err)
	}
	return err
}

// dial connects to the endpoint at an ebb on another machine. It implements
// egress.Forwarder's Dial.
func (e *endpoint) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	x, opened := e.now()
	conn, err := e.o.Endpoints.Connect(ctx, x)
	if client.IsKind(err, wire.KindNotFound) { // ebb was restarted, or the task has ended
		if x, err = e.anew(ctx, opened); err == nil {
			conn, err = e.o.Endpoints.Connect(ctx, x)
		}
	}
	return conn, restarting(err)
}

func (e *endpoint) now() (wire.EgressEndpoint, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, e.opened
}

// anew opens the endpoint again, unless another connection has done so since
// the n-th time it was opened.
func (e *endpoint) anew(ctx context.Context, n int) (wire.EgressEndpoint, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened == n {
		if err := e.open(ctx, e.state.TaskID); err != nil {
			return wire.EgressEndpoint{}, err
		}
	}
	return e.state, nil
}

// restarting wraps an error in egress.ErrBusy if ebb is busy, stopping or
// starting.
func restarting(err error) error {
	if err == nil {
		return nil
	}
	p, answered := errors.AsType[*client.Problem](err)
	soon := answered && (p.Kind == wire.KindUnavailable || p.Kind == wire.KindTooMany || p.Kind == wire.KindInvalidProof || p.Status >= 500)
	for _, gone := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, os.ErrNotExist, io.EOF, io.ErrUnexpectedEOF} {
		soon = soon || !answered && errors.Is(err, gone)
	}
	if soon {
		return fmt.Errorf("%w: %w", egress.ErrBusy, err)
	}
	return err
}

// coreEndpoint converts an endpoint for the parts of egress that run in this process.
func coreEndpoint(b wire.EgressEndpoint) broker.EgressEndpoint {
	return broker.EgressEndpoint{
		ID: b.ID, TaskID: b.TaskID, Tool: b.Tool, Socket: b.Socket, CA: b.CA,
		Identity: broker.EndpointIdentity(b.Identity), State: broker.EndpointState(b.State), ExpiresAt: b.ExpiresAt,
	}
}
