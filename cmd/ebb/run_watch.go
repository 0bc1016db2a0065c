package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/stdio"
)

// watch runs the command to its end: signals go to it, and when the task is over it is told
// to end, because nothing that it could still do would count. If it does not, it is killed.
func (c *cli) watch(in *boxed, over <-chan struct{}, grace time.Duration) error {
	signals := make(chan os.Signal, 16)
	// SIGPIPE is not for the command: a stream that nobody reads any more is closed for it.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGPIPE)
	defer signal.Stop(signals)
	closeStreams, err := in.openStreams()
	if err != nil {
		return fail(err.Error(), "give CMD an input that is no terminal, such as </dev/null")
	}
	defer closeStreams()
	running, err := in.kind.Start(in.spec)
	if err != nil {
		return in.failure(err)
	}
	if in.streams != nil {
		if err := in.streams.Join(); err != nil {
			running.Kill()
		}
	}
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		code, err := running.Wait()
		ended <- end{code, err}
	}()
	var patience <-chan time.Time
	for {
		select {
		case s := <-signals:
			in.pass(running, s)
		case <-over:
			over = nil
			_ = running.Signal(syscall.SIGTERM)
			patience = time.After(grace)
		case <-patience:
			c.sayf("ebb: CMD did not end within %s and is killed\n", grace)
			running.Kill()
		case e := <-ended:
			c.status = exit(e.code)
			return in.failure(e.err)
		}
	}
}

// pass sends a signal on. What a terminal's keys mean says the terminal that the command has.
func (b *boxed) pass(running box.Running, s os.Signal) {
	switch {
	case s == syscall.SIGPIPE:
		return
	case s == syscall.SIGWINCH:
		if b.streams != nil {
			b.streams.Resize()
		}
		return
	case b.plain && (s == os.Interrupt || s == syscall.SIGQUIT) && b.spec.Stdin != nil && stdio.IsTerminal(b.spec.Stdin):
		return // a plain child is in the same foreground group, and has had it already
	}
	_ = running.Signal(s) // it may be over
}

// openStreams gives a box streams of its own.
func (b *boxed) openStreams() (closing func(), err error) {
	if b.plain {
		return func() {}, nil
	}
	var owner *stdio.Owner
	if u := b.spec.User; u != nil {
		owner = &stdio.Owner{UID: int(u.UID), GID: int(u.GID)}
	}
	if b.streams, err = stdio.Open(b.spec.Stdin, b.spec.Stdout, b.spec.Stderr, owner); err != nil {
		return nil, err
	}
	b.spec.Stdin, b.spec.Stdout, b.spec.Stderr, b.spec.TTY = b.streams.Stdin, b.streams.Stdout, b.streams.Stderr, b.streams.TTY
	return b.streams.Close, nil
}

// file is a stream that a process can have; nil = none of its own.
func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}
