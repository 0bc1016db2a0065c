package redisstore

import (
	"context"
	"fmt"
	"log/slog"
)

// driverLog logs the messages of the Redis client: failed connections, changes of the
// master. Without it the client would write to standard error in its own format.
type driverLog struct{ to *slog.Logger }

// Printf implements the client's Logging interface.
func (l driverLog) Printf(ctx context.Context, format string, v ...any) {
	l.to.WarnContext(ctx, "the Redis client reports", "text", fmt.Sprintf(format, v...))
}
