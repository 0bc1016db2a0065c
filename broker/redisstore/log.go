package redisstore

import (
	"context"
	"fmt"
	"log/slog"
)

// driverLog is where the driver says what it meets: connections that fail, masters
// that change. By itself it would write to standard error, in a form of its own.
type driverLog struct{ to *slog.Logger }

// Printf implements the driver's Logging.
func (l driverLog) Printf(ctx context.Context, format string, v ...any) {
	l.to.WarnContext(ctx, "the Redis client reports", "text", fmt.Sprintf(format, v...))
}
