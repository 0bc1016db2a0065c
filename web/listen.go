package web

import (
	"context"
	"net"
	"time"
)

// silence is the time after which the kernel closes a connection with unacknowledged data. A
// sandbox whose machine has disappeared is detected after the next heartbeat and this time. Without
// it TCP would retransmit for about 15 min.
const silence = 20 * time.Second

// ListenTCP listens on host:port.
func ListenTCP(ctx context.Context, address string) (net.Listener, error) {
	c := net.ListenConfig{Control: boundSilence}
	return c.Listen(ctx, "tcp", address)
}
