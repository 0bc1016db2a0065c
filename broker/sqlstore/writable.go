package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// failureFor is how long Writable fails after a failed write, unless a later write
	// with a waiting caller succeeds. A successful probe does not end that time: a probe
	// is small, and may find space on a disk where a mint does not.
	failureFor = 10 * time.Second
	// successFor is how long Writable succeeds without a probe after a successful write.
	successFor = 5 * time.Second
)

// outcomes stores the outcomes of the latest writes, and runs at most one probe at a
// time.
type outcomes struct {
	mu     sync.Mutex
	last   time.Time // when the latest write or probe succeeded
	failed time.Time // when the latest write failed; zero once a later write has succeeded
	err    error     // error of that write
	probe  *probe    // the running probe, or nil
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

// recent returns the outcome of the latest writes; known is false when a probe is needed.
func (o *outcomes) recent() (err error, known bool) { //nolint:revive // not an error of recent itself
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failed.IsZero() && time.Since(o.failed) < failureFor {
		return o.err, true
	}
	return nil, time.Since(o.last) < successFor
}

// begin joins the running probe or starts one.
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

// Writable implements broker.Store. It does no write when another write has just had an
// outcome. Otherwise it commits a row of probeBytes and its removal, on the connection of
// every write.
func (w *storeWriter) Writable(ctx context.Context) error {
	if err, known := w.com.outcomes.recent(); known {
		return err
	}
	p := w.com.outcomes.begin(func() error {
		return w.com.do(context.Background(), &unit{probe: true, work: writeProbe})
	})
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("database %s: a write has not ended: %w", w.engine.name, ctx.Err())
	}
}

// probeBytes is larger than a page: a smaller row could fit into an existing page, and
// would be written on a full disk, too.
const probeBytes = 16 << 10

func writeProbe(ctx context.Context, s *session, u *unit) error {
	row := "probe " + strings.Repeat("x", probeBytes)
	if _, err := s.exec(ctx, "INSERT INTO audit_writers (writer, started_at) VALUES (?, 0)", row); err != nil {
		return err
	}
	_, err := s.exec(ctx, "DELETE FROM audit_writers WHERE writer = ?", row)
	return err
}
