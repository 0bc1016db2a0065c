package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// failureFor is how long a write that failed makes Writable fail, unless a write that
	// somebody waited for succeeds after it. A probe does not end that time: it is small,
	// and finds room where a mint finds none.
	failureFor = 10 * time.Second
	// successFor is how long a write that succeeded stands for the next.
	successFor = 5 * time.Second
)

// outcomes remembers how the latest writes ended, and runs at most one probe at a time.
type outcomes struct {
	mu     sync.Mutex
	last   time.Time // when the latest write or probe succeeded
	failed time.Time // when the latest write failed; zero once a later write has succeeded
	err    error     // why
	probe  *probe    // the one under way, or nil
}

// probe is a write of the store itself. err may be read once done is closed.
type probe struct {
	done chan struct{}
	err  error
}

func (o *outcomes) succeeded(probe bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = time.Now()
	if !probe {
		o.failed, o.err = time.Time{}, nil
	}
}

func (o *outcomes) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed, o.err, o.last = time.Now(), err, time.Time{}
}

// recent returns what the latest writes say; known is false when a probe has to find out.
func (o *outcomes) recent() (err error, known bool) { //nolint:revive // not an error of recent itself
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failed.IsZero() && time.Since(o.failed) < failureFor {
		return o.err, true
	}
	return nil, time.Since(o.last) < successFor
}

// begin joins the probe that is under way or starts one.
func (o *outcomes) begin(run func() error) *probe {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.probe != nil {
		return o.probe
	}
	p := &probe{done: make(chan struct{})}
	o.probe = p
	go func() {
		p.err = run()
		o.mu.Lock()
		o.probe = nil
		o.mu.Unlock()
		close(p.done)
	}()
	return p
}

// Writable implements broker.Journal. A store that has just written is not asked. One that has
// not is asked to commit a row of probeBytes and its removal, by the same connection as every write.
func (s *Store) Writable(ctx context.Context) error {
	if err, known := s.com.outcomes.recent(); known {
		return err
	}
	p := s.com.outcomes.begin(func() error {
		return s.com.do(context.Background(), &unit{probe: true, work: writeProbe})
	})
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("journal %s: a write has not ended: %w", s.engine.name, ctx.Err())
	}
}

// probeBytes needs pages of its own: a row that fits into a page that is there would be written
// on a full disk, too.
const probeBytes = 16 << 10

func writeProbe(ctx context.Context, s *session, u *unit) error {
	row := "probe " + strings.Repeat("x", probeBytes)
	if _, err := s.exec(ctx, "INSERT INTO audit_writers (writer, started_at) VALUES (?, 0)", row); err != nil {
		return err
	}
	_, err := s.exec(ctx, "DELETE FROM audit_writers WHERE writer = ?", row)
	return err
}
