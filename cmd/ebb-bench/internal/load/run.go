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
	WarmUp   time.Duration // before the window; its responses are checked but not measured
	Window   time.Duration
	Requests [][]byte // each is sent at most once, unless Repeat
	Repeat   bool     // requests may be sent again
	// Check validates a response; body is only valid during the call. Several
	// clients call it at once during the measurement, so it must be cheap.
	Check func(request int, status int, body []byte) error
	// Connected, if set, is called when all connections are open and before the
	// first request.
	Connected func()
}

// patience is the time after the window in which the last responses may arrive.
const patience = time.Minute

type worker struct {
	latencies []time.Duration
	errors    int
	first     error
}

// Run runs one job. Responses that Check refuses count as errors and not in the
// rate. The error means that nothing could be measured.
func Run(ctx context.Context, t Target, j Job) (Result, error) {
	if len(j.Requests) == 0 || j.Clients < 1 {
		return Result{}, errors.New("load: Requests and Clients must not be empty")
	}
	conns := make([]*Conn, j.Clients)
	for i := range conns {
		c, err := t.Dial(ctx, j.WarmUp+j.Window+patience)
		if err != nil {
			return Result{}, err
		}
		defer c.Close()
		conns[i] = c
	}
	workers := make([]worker, j.Clients)
	for i := range workers {
		workers[i].latencies = make([]time.Duration, 0, 1<<12)
	}
	if j.Connected != nil {
		j.Connected()
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	cpu, sent := processCPU(), time.Now()
	begin := sent.Add(j.WarmUp)
	for i, c := range conns {
		wg.Go(func() { workers[i].loop(ctx, c, j, begin, &next) })
	}
	wg.Wait()
	end := time.Now()
	cpu = processCPU() - cpu
	var all []time.Duration
	r := Result{}
	for _, w := range workers {
		all = append(all, w.latencies...)
		r.Errors += w.errors
		if w.first != nil && r.First == "" {
			r.First = w.first.Error()
		}
	}
	sum := Summary(j.Op, j.Clients, end.Sub(begin), all)
	sum.Errors, sum.First = r.Errors, r.First
	// When the requests are used up, each client takes one number more than it
	// sends.
	sum.Sent = int(next.Load())
	if !j.Repeat {
		sum.Sent = min(sum.Sent, len(j.Requests))
	}
	sum.ClientCPU = cpu / time.Duration(max(1, sum.Sent))
	if sum.Ops == 0 {
		return sum, fmt.Errorf("%s: no valid response: %s", j.Op, sum.First)
	}
	return sum, nil
}

func (w *worker) loop(ctx context.Context, c *Conn, j Job, begin time.Time, next *atomic.Int64) {
	end := begin.Add(j.Window)
	for asked := false; ctx.Err() == nil; {
		start := time.Now()
		if asked && !start.Before(end) {
			return // each client measures at least one request, even if the window has passed
		}
		asked = asked || !start.Before(begin)
		n := int(next.Add(1)) - 1
		if n >= len(j.Requests) && !j.Repeat {
			return
		}
		n %= len(j.Requests)
		status, body, err := c.Do(j.Requests[n])
		took := time.Since(start)
		broken := err != nil
		if err == nil {
			err = j.Check(n, status, body)
		}
		if err == nil {
			if !start.Before(begin) {
				w.latencies = append(w.latencies, took)
			}
			continue
		}
		w.errors++
		if w.first == nil {
			w.first = err
		}
		if broken || w.errors > 1000 {
			return // the connection is broken, or too many requests fail
		}
	}
}
