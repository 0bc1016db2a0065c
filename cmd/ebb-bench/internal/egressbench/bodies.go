package egressbench

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

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
