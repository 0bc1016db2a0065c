package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
)

// approvalWait tells the person at the terminal which request waits for an approval, and for how long.
type approvalWait struct {
	*cli
	scope string
	asked client.Pending // the zero value until ebb has answered that the request waits

	stop func()
}

// awaiting returns an approvalWait whose method told is a TokenRequest.Pending. Call done after the request.
func (c *cli) awaiting(scope string) *approvalWait {
	return &approvalWait{cli: c, scope: scope, stop: func() {}}
}

// told prints the request at once, and its remaining time until done.
func (w *approvalWait) told(p client.Pending) {
	w.asked = p
	w.sayAsked(w.scope, p)
	person := terminal(w.stderr)
	every := time.Minute
	if person {
		every = time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := time.NewTicker(every)
	var ended sync.WaitGroup
	until := time.Now().Add(p.ExpiresIn)
	ended.Go(func() { countDown(ctx, w.stderr, person, until, t.C) })
	w.stop = func() {
		t.Stop()
		cancel()
		ended.Wait()
		w.stop = func() {}
	}
}

// done ends the countdown, and explains how to continue if ctx ended before the decision. again is the command that
// finds the same request.
func (w *approvalWait) done(ctx context.Context, again string, err error) error {
	w.stop()
	if err == nil || ctx.Err() == nil || w.asked.RequestID == "" {
		return err
	}
	text := "interrupted: the request " + out.Line(w.asked.RequestID) + " still waits for an approval"
	if w.asked.ExpiresIn == 0 {
		text = "interrupted: the request " + out.Line(w.asked.RequestID) + " is not decided yet"
	}
	return &failure{Code: exitPending, Text: text, Next: again}
}

// sayAsked prints the approvers of a request, its page and its deadline. Text from the server is escaped. In a sandbox of
// ebb run it prints nothing to the runner's own standard error, because the runner has printed the same there.
func (c *cli) sayAsked(scope string, p client.Pending) {
	if id := fileID(c.stderr); id != "" && id == c.env("EBB_RUN_STDERR") {
		return
	}
	c.sayf("ebb: a person must approve the request for %s\n", out.Line(scope))
	if p.RequestID == "" {
		c.sayf("  see        ebb requests list\n")
		return
	}
	c.sayf("  request    %s, match code %s\n", out.Line(p.RequestID), broker.MatchCode(p.RequestID))
	if len(p.Groups) > 0 {
		c.sayf("  approvers  members of %s\n", out.Line(strings.Join(p.Groups, ", ")))
	}
	c.sayf("  page       %s\n", cmp.Or(out.Line(p.Page), "`ebb console` prints a link; or ebb requests show "+out.Line(p.RequestID)))
	if p.ExpiresIn > 0 {
		c.sayf("  due in     %s\n", p.ExpiresIn.Round(time.Second))
	}
}

// fileID identifies an open file: all processes and sandboxes get the same text for one file. It returns "" if w is no
// file.
func fileID(w io.Writer) string {
	f, _ := w.(*os.File)
	if info, err := f.Stat(); err == nil { // a nil f returns an error
		if st, is := info.Sys().(*syscall.Stat_t); is {
			return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
		}
	}
	return ""
}

// countDown prints the remaining time at each tick until ctx is done: in one line of a terminal, which it leaves empty,
// and else in a line for each tick.
func countDown(ctx context.Context, w io.Writer, terminal bool, until time.Time, ticks <-chan time.Time) {
	const clear = "\r\x1b[K"
	for {
		select {
		case <-ctx.Done():
			if terminal {
				fmt.Fprint(w, clear)
			}
			return
		case now := <-ticks:
			left := max(until.Sub(now), 0).Round(time.Second)
			if terminal {
				fmt.Fprintf(w, "%sebb: waiting for an approval, %s left", clear, left)
			} else {
				fmt.Fprintf(w, "ebb: waiting for an approval, %s left\n", left)
			}
		}
	}
}
