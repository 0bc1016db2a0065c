package egressbench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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
