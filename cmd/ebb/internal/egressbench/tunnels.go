package egressbench

import (
	"context"
	"fmt"
	"net"

	"ebb/web/load"
)

// perBox is how many connections a box has at one time.
const perBox = 64

// tunnels measures the memory of connections over which one request has gone, and no more.
func (b *run) tunnels(ctx context.Context) error {
	t, err := b.people.open(ctx, (b.Tunnels+perBox-1)/perBox)
	if err != nil {
		return err
	}
	defer t.end(ctx)
	before, err := residentOf(b.Server)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(b.Address)
	for i := range b.Tunnels {
		w := way{url: b.straight("https"), bearer: t.placeholder, connect: t.boxes[i/perBox].tunnel(port)}
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
		Note: fmt.Sprintf("boxes: %d; %.1f MB resident before, %.1f MB with them, %.1f KB for each: one request each, its garbage included", len(t.boxes), mb(before), mb(after), float64(after-before)/float64(b.Tunnels)/1e3),
	})
	return nil
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
