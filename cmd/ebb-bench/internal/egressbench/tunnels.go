package egressbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// tunnels measures the memory of idle connections that have served one request
// each.
func (b *run) tunnels(ctx context.Context) error {
	tasks, err := b.spread(ctx, b.Tunnels)
	if err != nil {
		return err
	}
	defer tasks.end(ctx)
	before, err := residentOf(b.Server)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(b.Address)
	for i := range b.Tunnels {
		t, endpoint := tasks.at(i)
		w := way{url: b.straight("https"), bearer: t.placeholder, connect: endpoint.tunnel(port)}
		tr := w.transport()
		defer tr.CloseIdleConnections()
		if err := getSmall(ctx, tr, w, nil); err != nil {
			return fmt.Errorf("tunnel %d: %w", i+1, err)
		}
	}
	after, err := residentOf(b.Server)
	if err != nil {
		return err
	}
	b.add(Row{
		Result: load.Result{Op: opTunnels, Clients: b.Tunnels, Ops: b.Tunnels}, Way: wayMITM, Resident: after, Added: after - before,
		Note: fmt.Sprintf("tasks: %d; %.1f MB resident before, %.1f MB with them, %.1f KB for each, including the garbage of its one request", len(tasks), mb(before), mb(after), float64(after-before)/float64(b.Tunnels)/1e3),
	})
	return nil
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// cutPatience is the time after a revocation after which an open stream counts
// as not cut off.
const cutPatience = 30 * time.Second

// revoke measures the time from the request to revoke a credential until its
// streams end.
func (b *run) revoke(ctx context.Context) error {
	var rows []Row
	for range b.Rounds {
		r, err := b.revokeOnce(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	note := rows[0].Note
	r := median(rows)
	r.Note = note
	b.add(r)
	return nil
}

func (b *run) revokeOnce(ctx context.Context) (Row, error) {
	tasks, err := b.spread(ctx, b.Streams)
	if err != nil {
		return Row{}, err
	}
	defer tasks.end(ctx)
	_, port, _ := net.SplitHostPort(b.Address)
	ends := make([]time.Time, b.Streams)
	var wg sync.WaitGroup
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
	}()
	var events atomic.Int64
	for i := range b.Streams {
		t, endpoint := tasks.at(i)
		w := way{url: b.straight("https"), bearer: t.placeholder, connect: endpoint.tunnel(port)}
		c, r, err := w.stream(ctx)
		if err != nil {
			return Row{}, fmt.Errorf("stream %d: %w", i+1, err)
		}
		conns = append(conns, c)
		wg.Go(func() {
			for err := error(nil); err == nil; events.Add(1) {
				_, err = r.ReadSlice('\n')
			}
			ends[i] = time.Now()
		})
	}
	had := events.Load()
	time.Sleep(2 * eventEvery)
	if events.Load() == had {
		return Row{}, errors.New("the streams carry no events")
	}
	asked := time.Now()
	if err := b.revokeAll(ctx, tasks); err != nil {
		return Row{}, err
	}
	answered := time.Since(asked)
	for _, c := range conns { // finds streams that are not cut off
		_ = c.SetReadDeadline(asked.Add(cutPatience))
	}
	wg.Wait()
	var all []time.Duration
	left := 0
	for _, end := range ends {
		if took := end.Sub(asked); took < cutPatience {
			all = append(all, took)
		} else {
			left++
		}
	}
	sum := load.Summary(opRevoke, b.Streams, 0, all)
	sum.Errors = left
	return Row{Result: sum, Way: wayMITM, Note: fmt.Sprintf("server-sent events; from the request to revoke until the client's stream ends; ebb responded to the request after %.1f ms", float64(answered.Microseconds())/1e3)}, nil
}

// revokeAll revokes the credentials of all tasks at the same time.
func (b *run) revokeAll(ctx context.Context, tasks spread) error {
	errs := make([]error, len(tasks))
	var wg sync.WaitGroup
	for i, t := range tasks {
		wg.Go(func() { _, errs[i] = b.people.runner.Credentials.Revoke(ctx, t.lease, "bench") })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stream opens a stream and returns after its first event.
func (w way) stream(ctx context.Context) (net.Conn, *bufio.Reader, error) {
	c, err := w.connect(ctx, "http/1.1")
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReaderSize(c, 1<<10)
	err = w.events(ctx, c, r)
	if err != nil {
		_ = c.Close()
	}
	return c, r, err
}

// events requests a stream and reads until its first event.
func (w way) events(ctx context.Context, c net.Conn, r *bufio.Reader) error {
	req, err := w.request(ctx, "/v1/events")
	if err != nil {
		return err
	}
	if err := req.Write(c); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = r.ReadSlice('\n')
	return err
}
