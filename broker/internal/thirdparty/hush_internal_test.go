package thirdparty

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

func TestHush(t *testing.T) {
	t.Parallel()
	var h hush
	now := time.Now().Truncate(time.Millisecond)
	left := func(want time.Duration) {
		t.Helper()
		if got := h.Left(now); got != want {
			t.Errorf("%s left, want %s", got, want)
		}
	}
	left(0)
	h.Keep(now, time.Minute)
	h.Keep(now, time.Second) // does not shorten it
	left(time.Minute)
	h.Keep(now, 48*time.Hour)
	left(provider.MaxWait)
	now = now.Add(-48 * time.Hour) // the clock was set back
	left(0)
	h.Keep(now, time.Minute)
	left(time.Minute)
	now = now.Add(time.Minute)
	left(0)
	h.Keep(now, time.Minute)
	h.End()
	left(0)
}
