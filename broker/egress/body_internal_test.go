package egress

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// drip is a body that gives so many bytes each second, without end.
type drip struct{ bytes int }

func (d drip) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return min(d.bytes, len(p)), nil
}

// E50: a body that comes by the byte is cut; one that comes, however long it takes, is not,
// nor one that waits for an answer that has begun, nor one whose upstream is slow to take it.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes    int
		pause    time.Duration // of the upstream
		answered bool
		cut      bool
	}{
		"a byte a second":                     {bytes: 1, cut: true},
		"a byte a second, to a slow upstream": {bytes: 1, pause: time.Minute, cut: true},
		"100 bytes a second":                  {bytes: 100, cut: true},
		"a chunk in time":                     {bytes: bodyChunk / 10},
		"a slow upstream":                     {bytes: bodyChunk, pause: time.Hour},
		"a conversation":                      {bytes: 1, answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cut atomic.Bool
				s := &sending{b: &box{p: &Proxy{cfg: Config{BodyTime: 30 * time.Second, RequestBytes: 1 << 30, TaskBytes: 1 << 30}}}, cut: func(error) { cut.Store(true) }}
				s.answered.Store(c.answered)
				m := &metered{ReadCloser: io.NopCloser(drip{c.bytes}), s: s, task: new(atomic.Int64), left: 30 * time.Second}
				for range 300 {
					if _, err := m.Read(make([]byte, 32<<10)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.pause)
				}
				if synctest.Wait(); cut.Load() != c.cut {
					t.Errorf("cut: %v", cut.Load())
				}
			})
		})
	}
}
