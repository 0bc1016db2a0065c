package egressbench

import (
	"context"
	"fmt"
	"net"

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
		t, box := tasks.at(i)
		w := way{url: b.straight("https"), bearer: t.placeholder, connect: box.tunnel(port)}
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
