package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/attest/clock"
)

const (
	shutdownGrace = 10 * time.Second // for running requests
	longPollGrace = time.Second      // for requests that only wait
	keyRound      = time.Minute      // interval of signing key maintenance
	policyRound   = 2 * time.Second  // interval of checks of the policy directory
)

// serve runs the node until ctx is done and then stops in order: running
// requests are answered, the last audit entry is written, the database and
// Redis are closed. reload is a signal to read the policies now; nil = they are
// only read on a timer.
func (n *node) serve(ctx context.Context, reload <-chan struct{}) error {
	g, running := errgroup.WithContext(ctx)
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	for _, l := range []net.Listener{n.listener, n.socket} {
		if l == nil {
			continue
		}
		g.Go(func() error {
			err := n.server.Serve(l)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serving: %w", err)
		})
	}
	if n.notifier != nil {
		g.Go(func() error { return n.notifier.Run(running) })
	}
	if n.transcripts != nil {
		g.Go(func() error { n.transcripts.Run(running, n.log); return nil })
	}
	done := make(chan error, 1)
	go func() { done <- n.broker.Run(work) }()
	g.Go(func() error { return n.keepKeys(running) })
	g.Go(func() error { return n.policies.Watch(running, policyRound, reload) })
	for _, r := range n.runners {
		g.Go(func() error { return r.Run(running) })
	}
	g.Go(func() error {
		<-running.Done()
		return n.shutdown(context.WithoutCancel(ctx))
	})
	err := g.Wait()
	// The broker stops last, so that it also revokes what the last requests left
	// pending.
	endWork()
	return errors.Join(err, <-done, n.close())
}

func (n *node) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	timer := time.AfterFunc(longPollGrace, n.stop)
	defer timer.Stop()
	n.broker.EndGraces()
	if n.endpoints != nil {
		_ = n.endpoints.Close() // always nil: a directory that is left is removed at the next start
	}
	if err := n.server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were still running after %s: %w", shutdownGrace, err), n.server.Close())
	}
	return nil
}

// keepKeys rotates signing keys when they are due and loads those that other
// replicas created. After a failure the current keys stay in use, and keepKeys
// tries again.
func (n *node) keepKeys(ctx context.Context) error {
	t := time.NewTicker(keyRound)
	defer t.Stop()
	watch := clock.New(n.now, nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			// A clock that is temporarily ahead must neither create nor retire keys.
			if err := n.dir.Maintain(watch.Read().Sure); err != nil {
				n.log.ErrorContext(ctx, "the maintenance of signing keys failed; the current keys stay in use", "error", err)
			}
			if n.sealing == nil {
				continue
			}
			if err := n.sealing.Maintain(ctx); err != nil {
				n.log.ErrorContext(ctx, "the maintenance of sealing keys failed; without one no credential is minted at third parties", "error", err)
			}
		}
	}
}

// close closes everything that was opened, in reverse order.
func (n *node) close() error {
	var errs []error
	if n.stop != nil {
		n.stop()
	}
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	n.closers = nil
	for _, l := range []net.Listener{n.listener, n.socket} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return nil
}
