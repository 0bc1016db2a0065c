package notifier

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A database that never answers is logged; the stop of ebb is not.
func TestTrySaysWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := &Notifier{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		if n.try(t.Context(), "the audit log could not be read", hangs) || !strings.Contains(log.String(), "the audit log could not be read") {
			t.Errorf("logged %q", log.String())
		}
		log.Reset()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n.try(ctx, "the audit log could not be read", hangs) || log.Len() > 0 {
			t.Errorf("logged %q", log.String())
		}
	})
}
