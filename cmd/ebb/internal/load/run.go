package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Job is one measurement.
type Job struct {
	Op       string
	Clients  int
	Window   time.Duration
	Requests [][]byte // each is sent at most once, unless Repeat
	Repeat   bool     // requests may be sent again
	// Check judges an answer; body is only valid during the call. Called by
	// several clients at once, while the clock runs: keep it cheap.
	Check func(request int, status int, body []byte) error
}

type worker struct {
	latencies []time.Duration
	errors    int
	first     error
}

// Run runs one job. Answers that Check refuses count as errors and not into
// the rate. The error says that nothing could be measured.
func Run(ctx context.Context, t Target, j Job) (Result, error) {
	if len(j.Requests) == 0 || j.Clients < 1 {
		return Result{}, errors.New("nothing to send")
	}
	conns := make([]*Conn, j.Clients)
	for i := range conns {
		c, err := t.Dial(ctx)
		if err != nil {
			return Result{}, err
		}
		defer c.Close()
		conns[i] = c
	}
	ctx, cancel := context.WithTimeout(ctx, j.Window)
	defer cancel()
	workers := make([]worker, j.Clients)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for i, c := range conns {
		wg.Go(func() { workers[i].loop(ctx, c, j, &next) })
	}
	wg.Wait()
	took := time.Since(start)
	var all []time.Duration
	r := Result{}
	for _, w := range workers {
		all = append(all, w.latencies...)
		r.Errors += w.errors
		if w.first != nil && r.First == "" {
			r.First = w.first.Error()
		}
	}
	sum := Summary(j.Op, j.Clients, took, all)
	sum.Errors, sum.First = r.Errors, r.First
	if sum.Ops == 0 {
		return sum, fmt.Errorf("%s: no good answer: %s", j.Op, sum.First)
	}
	return sum, nil
}

func (w *worker) loop(ctx context.Context, c *Conn, j Job, next *atomic.Int64) {
	buf := make([]byte, 0, 8<<10)
	for ctx.Err() == nil {
		n := int(next.Add(1)) - 1
		if n >= len(j.Requests) && !j.Repeat {
			return
		}
		n %= len(j.Requests)
		start := time.Now()
		status, body, err := c.Do(j.Requests[n], buf)
		took := time.Since(start)
		buf = body
		broken := err != nil
		if err == nil {
			err = j.Check(n, status, body)
		}
		if err == nil {
			w.latencies = append(w.latencies, took)
			continue
		}
		w.errors++
		if w.first == nil {
			w.first = err
		}
		if broken || w.errors > 1000 {
			return // this connection is of no more use, or nothing works
		}
	}
}
