package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/attest/clock"
)

const (
	shutdownGrace = 10 * time.Second // for requests in flight
	longPollGrace = time.Second      // for requests that only wait
	keyRound      = time.Minute      // how often signing keys are looked after
	policyRound   = 2 * time.Second  // how often the policy directory is looked at
)

// serve runs the node until ctx is done, then ends in good order: requests in
// flight are answered, the record gets its last entry, the stores are closed.
// Reload is a signal to read the policies now; nil = only the clock does.
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
	// The janitor goes last: ends that requests in flight still owed are paid.
	endWork()
	return errors.Join(err, <-done, n.close())
}

func (n *node) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	timer := time.AfterFunc(longPollGrace, n.stop)
	defer timer.Stop()
	n.broker.EndGraces()
	if n.boxes != nil {
		_ = n.boxes.Close() // it has no error to give: what cannot be removed is at the next start
	}
	if err := n.server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were still running after %s: %w", shutdownGrace, err), n.server.Close())
	}
	return nil
}

// keepKeys rotates signing keys when they are due and picks up those that other
// replicas made. A failure leaves the keys as they are, and is tried again.
func (n *node) keepKeys(ctx context.Context) error {
	t := time.NewTicker(keyRound)
	defer t.Stop()
	watch := clock.New(n.now, nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			// A clock that is ahead for a moment must neither make keys nor archive them.
			if err := n.dir.Maintain(watch.Read().Sure); err != nil {
				n.log.ErrorContext(ctx, "signing keys could not be looked after; the ones in force stay", "error", err)
			}
			if n.sealing == nil {
				continue
			}
			if err := n.sealing.Maintain(ctx); err != nil {
				n.log.ErrorContext(ctx, "sealing keys could not be looked after; nothing mints at third parties without one", "error", err)
			}
		}
	}
}

// close closes what was opened, last first.
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
