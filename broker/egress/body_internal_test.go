package egress

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// drip is an endless body that returns a number of bytes each second.
type drip struct{ bytes int }

func (d drip) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return min(d.bytes, len(p)), nil
}

// E50: a body that arrives byte by byte is disconnected. A body that arrives fast enough is not,
// however long it takes, nor one after the response has begun, nor one whose upstream is slow to
// accept it.
//
//ebb:invariant I12 The time for which a sandbox can keep an upstream waiting for a request body is limited
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes      int
		pause      time.Duration // of the upstream
		answered   bool
		disconnect bool
	}{
		"a byte a second":                     {bytes: 1, disconnect: true},
		"a byte a second, to a slow upstream": {bytes: 1, pause: time.Minute, disconnect: true},
		"100 bytes a second":                  {bytes: 100, disconnect: true},
		"a chunk in time":                     {bytes: bodyChunk / 10},
		"a slow upstream":                     {bytes: bodyChunk, pause: time.Hour},
		"a conversation":                      {bytes: 1, answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var disconnect atomic.Bool
				s := &outbound{b: &endpoint{p: &Proxy{cfg: Config{BodyTime: 30 * time.Second, RequestBytes: 1 << 30, TaskBytes: 1 << 30}}}, disconnect: func(error) { disconnect.Store(true) }}
				s.answered.Store(c.answered)
				m := &meteredBody{ReadCloser: io.NopCloser(drip{c.bytes}), s: s, task: new(atomic.Int64), left: 30 * time.Second}
				for range 300 {
					if _, err := m.Read(make([]byte, 32<<10)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.pause)
				}
				if synctest.Wait(); disconnect.Load() != c.disconnect {
					t.Errorf("cut: %v", disconnect.Load())
				}
			})
		})
	}
}

// servedBody is a body whose server closes it after its end.
type servedBody struct{ ended bool }

func (c *servedBody) Read(p []byte) (int, error) {
	if c.ended {
		return 0, http.ErrBodyReadAfterClose
	}
	c.ended = true
	return copy(p, "ab"), io.EOF
}

func (c *servedBody) Close() error { return nil }

// A body that has ended stays ended, also once its server has closed it.
func TestBodyStaysEnded(t *testing.T) {
	t.Parallel()
	s := &outbound{ctx: t.Context(), b: &endpoint{p: &Proxy{cfg: Config{RequestBytes: 10, TaskBytes: 10}}}}
	m := &meteredBody{ReadCloser: &servedBody{}, s: s, task: new(atomic.Int64), left: time.Minute}
	for range 3 {
		if _, err := io.ReadAll(m); err != nil {
			t.Fatal(err)
		}
	}
}
