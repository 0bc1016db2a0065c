package egressbench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

const smallPath = "/v1/small"

// requests measures small requests, one at a time on every connection, over all
// ways in turn.
func (b *run) requests(ctx context.Context) error {
	ways := slices.DeleteFunc(slices.Clone(b.ways), func(w way) bool { return w.large })
	for _, clients := range b.Clients {
		taken := make([][]Row, len(ways))
		for round := range b.Rounds {
			b.Announce(fmt.Sprintf("requests of %d clients, round %d of %d", clients, round+1, b.Rounds))
			for i, w := range ways {
				r, err := b.loop(ctx, w, clients)
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				taken[i] = append(taken[i], r)
			}
		}
		for i, w := range ways {
			r := median(taken[i])
			r.Note = w.note
			b.add(r)
		}
	}
	return nil
}

// loop measures one way once.
func (b *run) loop(ctx context.Context, w way, clients int) (Row, error) {
	job := load.Job{
		Op: opRequest, Clients: clients, WarmUp: b.Window / 4, Window: b.Window, Repeat: true,
		Check: func(_, status int, body []byte) error { return small(status, len(body)) },
	}
	var before time.Duration
	var berr error
	job.Connected = func() { before, berr = processorOf(w.pids...) }
	defer load.Quiet()()
	var sum load.Result
	var err error
	if w.h2 {
		sum, err = loopH2(ctx, w, job)
	} else {
		t := w.target()
		job.Requests = [][]byte{t.Build(smallPath, "", nil, load.Header{Name: "Authorization", Value: "Bearer " + w.bearer})}
		sum, err = load.Run(ctx, t, job)
	}
	if err == nil {
		err = berr
	}
	if err != nil {
		return Row{}, err
	}
	after, err := processorOf(w.pids...)
	return Row{Result: sum, Way: w.name, CPU: (after - before) / time.Duration(max(1, sum.Sent))}, err
}

func small(status, length int) error {
	if status != http.StatusOK || length != smallBody {
		return fmt.Errorf("status %d with %d bytes", status, length)
	}
	return nil
}

// median returns the median of rows, for each figure separately.
func median(rows []Row) Row {
	out := rows[0]
	out.Ops, out.Errors, out.First = 0, 0, ""
	for _, r := range rows {
		out.Ops += r.Ops
		if out.Errors += r.Errors; out.First == "" {
			out.First = r.First
		}
	}
	out.Rate = middle(rows, func(r Row) float64 { return r.Rate })
	out.MBps = middle(rows, func(r Row) float64 { return r.MBps })
	for _, f := range []func(*Row) *time.Duration{
		func(r *Row) *time.Duration { return &r.P50 }, func(r *Row) *time.Duration { return &r.P99 },
		func(r *Row) *time.Duration { return &r.CPU }, func(r *Row) *time.Duration { return &r.ClientCPU },
	} {
		*f(&out) = time.Duration(middle(rows, func(r Row) float64 { return float64(*f(&r)) }))
	}
	return out
}

func middle(rows []Row, of func(Row) float64) float64 {
	var all []float64
	for _, r := range rows {
		all = append(all, of(r))
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

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

// bodies measures large responses, one at a time, over all ways in turn.
func (b *run) bodies(ctx context.Context) error {
	taken := make([][]Row, len(b.ways))
	for range b.Rounds {
		for i, w := range b.ways {
			r, err := b.body(ctx, w)
			if err != nil {
				return fmt.Errorf("%s: a body of %d bytes: %w", w.name, b.Body, err)
			}
			taken[i] = append(taken[i], r)
		}
	}
	for i, rows := range taken {
		r := median(rows)
		r.Note = b.ways[i].note
		b.add(r)
	}
	return nil
}

// body measures one way once, on an open connection.
func (b *run) body(ctx context.Context, w way) (Row, error) {
	t := w.transport()
	defer t.CloseIdleConnections()
	if err := getSmall(ctx, t, w, nil); err != nil {
		return Row{}, err
	}
	r, err := w.request(ctx, fmt.Sprintf("/v1/large/%d", b.Body))
	if err != nil {
		return Row{}, err
	}
	before, err := processorOf(w.pids...)
	if err != nil {
		return Row{}, err
	}
	start := time.Now()
	resp, err := t.RoundTrip(r)
	if err != nil {
		return Row{}, err
	}
	n, err := drain(resp.Body, nil)
	took := time.Since(start)
	if err == nil && n != b.Body {
		err = fmt.Errorf("status %d with %d bytes", resp.StatusCode, n)
	}
	if err != nil {
		return Row{}, err
	}
	after, err := processorOf(w.pids...)
	sum := load.Summary(fmt.Sprintf("%s of %d MiB", opBody, b.Body>>20), 1, took, []time.Duration{took})
	sum.Rate = 0
	return Row{Result: sum, Way: w.name, CPU: after - before, MBps: float64(n) / 1e6 / took.Seconds()}, err
}
