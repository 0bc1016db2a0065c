package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/stdio"
)

// watch runs the command to its end and forwards signals to it. When the task
// has ended it sends SIGTERM, because the command's credentials no longer work,
// and kills the command after grace.
func (c runCommand) watch(in *boxed, over <-chan struct{}, grace time.Duration) error {
	signals := make(chan os.Signal, 16)
	// SIGPIPE is not forwarded: when a reader is gone the command's own stream is
	// closed.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGPIPE)
	defer signal.Stop(signals)
	closeStreams, err := in.openStreams()
	if err != nil {
		return fail(err.Error(), "give CMD an input that is not a terminal, such as </dev/null")
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

// pass forwards a signal. Keys of the user's terminal are interpreted by the
// terminal of the sandbox.
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
		return // a plain child is in the same foreground process group and has received the signal
	}
	_ = running.Signal(s) // the command may have ended
}

// openStreams creates streams for a sandbox.
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

// file returns stream as a file that a process can inherit, nil if it is none.
func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}
