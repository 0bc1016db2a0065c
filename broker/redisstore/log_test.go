package redisstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Messages of the Redis client go to the broker's logger.
func TestDriverLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	driverLog{slog.New(slog.NewJSONHandler(&out, nil))}.Printf(t.Context(), "failed to dial after %d attempts", 3)
	if got := out.String(); !strings.Contains(got, `"level":"WARN"`) || !strings.Contains(got, `"text":"failed to dial after 3 attempts"`) {
		t.Errorf("got %s", got)
	}
}
