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

	"ebb/broker"
	"ebb/broker/egress"
	"ebb/web/client"
)

// endpoint leads from the socket of a sandbox, which is this process's, to its ebb. A restart of ebb ends the
// box there: then endpoint opens it anew, with the CA that the sandbox trusts.
type endpoint struct {
	o    *client.Operator
	spec broker.BoxSpec
	// find checks the socket that ebb names, and opens its directory; nil = ebb is on another machine.
	find func(socket string) (*os.File, error)

	mu        sync.Mutex
	box       broker.Box
	opened    int           // how often
	namespace uint64        // of the sandbox, where ebb asks the kernel; 0 = not known yet
	to        *net.UnixConn // to box.Socket; nil = there is none
}

// open opens the box at ebb, or opens it anew.
func (e *endpoint) open(ctx context.Context, taskID string) error {
	spec := e.spec
	spec.ID = e.box.ID
	b, err := e.o.OpenBox(ctx, taskID, spec)
	if err == nil && e.namespace != 0 {
		_, err = e.o.RegisterBox(ctx, b, e.namespace)
	}
	if err != nil {
		return err
	}
	e.box = b
	e.opened++
	return nil
}

// register says which network namespace is the sandbox's.
func (e *endpoint) register(ctx context.Context, namespace uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.o.RegisterBox(ctx, e.box, namespace); err != nil {
		return err
	}
	e.namespace = namespace
	return nil
}

// connect connects to where an ebb on this machine takes connections.
func (e *endpoint) connect(ctx context.Context) error {
	dir, err := e.find(e.box.Socket)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	c, err := new(net.Dialer).DialContext(ctx, "unix", e.box.Socket)
	if err != nil {
		return err
	}
	e.to = c.(*net.UnixConn)
	return nil
}

// pass passes a connection to an ebb on this machine, as egress.Carrier wants it.
func (e *endpoint) pass(ctx context.Context, c *net.UnixConn) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.to == nil && e.connect(ctx) != nil {
		if err := e.open(ctx, e.box.TaskID); err != nil {
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

// dial connects to the box at an ebb on another machine, as egress.Carrier wants it.
func (e *endpoint) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	box, opened := e.now()
	conn, err := e.o.ConnectBox(ctx, box)
	if client.IsKind(err, broker.NotFound) { // that ebb is gone, or the task is over
		if box, err = e.anew(ctx, opened); err == nil {
			conn, err = e.o.ConnectBox(ctx, box)
		}
	}
	return conn, restarting(err)
}

func (e *endpoint) now() (broker.Box, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.box, e.opened
}

// anew opens the box anew, unless another connection has done so since it was opened for the n-th time.
func (e *endpoint) anew(ctx context.Context, n int) (broker.Box, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened == n {
		if err := e.open(ctx, e.box.TaskID); err != nil {
			return broker.Box{}, err
		}
	}
	return e.box, nil
}

// restarting wraps egress.ErrBusy around an error of an ebb that is busy, stopping or starting.
func restarting(err error) error {
	if err == nil {
		return nil
	}
	p, answered := errors.AsType[*client.Problem](err)
	soon := answered && (p.Kind == broker.Unavailable || p.Kind == broker.TooMany || p.Kind == broker.InvalidProof || p.Status >= 500)
	for _, gone := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, os.ErrNotExist, io.EOF, io.ErrUnexpectedEOF} {
		soon = soon || !answered && errors.Is(err, gone)
	}
	if soon {
		return fmt.Errorf("%w: %w", egress.ErrBusy, err)
	}
	return err
}
