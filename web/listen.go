package web

import (
	"context"
	"net"
	"time"
)

// silence is how long a peer may leave unacknowledged what was sent to it. Past that
// its connection is broken: a sandbox whose machine has vanished without a word is
// noticed by the next sign of life that nobody acknowledges, and not after the quarter
// of an hour for which TCP would go on.
const silence = 20 * time.Second

// ListenTCP listens on host:port.
func ListenTCP(ctx context.Context, address string) (net.Listener, error) {
	c := net.ListenConfig{Control: boundSilence}
	return c.Listen(ctx, "tcp", address)
}
