package egressbench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// loopH2 is load.Run for HTTP/2: all clients share one connection. The client
// is net/http, which uses more processor time than that of package load, but
// the same for every way of HTTP/2.
func loopH2(ctx context.Context, w way, j load.Job) (load.Result, error) {
	t := w.transport()
	defer t.CloseIdleConnections()
	if err := getSmall(ctx, t, w, nil); err != nil { // opens the single connection
		return load.Result{}, err
	}
	j.Connected()
	var mu sync.Mutex
	var all []time.Duration
	out := load.Result{}
	begin := time.Now().Add(j.WarmUp)
	var wg sync.WaitGroup
	for range j.Clients {
		wg.Go(func() {
			buf := make([]byte, 2*smallBody)
			for asked := false; ctx.Err() == nil; {
				start := time.Now()
				if asked && !start.Before(begin.Add(j.Window)) {
					return // as in package load
				}
				asked = asked || !start.Before(begin)
				err := getSmall(ctx, t, w, buf)
				took := time.Since(start)
				mu.Lock()
				out.Sent++
				switch {
				case err != nil:
					if out.Errors++; out.First == "" {
						out.First = err.Error()
					}
				case !start.Before(begin):
					all = append(all, took)
				}
				broken := out.Errors > 1000
				mu.Unlock()
				if broken {
					return
				}
			}
		})
	}
	wg.Wait()
	sum := load.Summary(j.Op, j.Clients, time.Since(begin), all)
	sum.Sent, sum.Errors, sum.First = out.Sent, out.Errors, out.First
	if sum.Ops == 0 {
		return sum, fmt.Errorf("no successful response: %s", sum.First)
	}
	return sum, nil
}

// getSmall sends one small request; buf may be nil.
func getSmall(ctx context.Context, t http.RoundTripper, w way, buf []byte) error {
	r, err := w.request(ctx, smallPath)
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	n, err := drain(resp.Body, buf)
	if err != nil {
		return err
	}
	return small(resp.StatusCode, int(n))
}

// drain reads a body to its end and closes it.
func drain(body io.ReadCloser, buf []byte) (n int64, err error) {
	if buf == nil {
		buf = make([]byte, 64<<10)
	}
	for err == nil {
		var m int
		m, err = body.Read(buf)
		n += int64(m)
	}
	_ = body.Close()
	if err == io.EOF {
		err = nil
	}
	return n, err
}
