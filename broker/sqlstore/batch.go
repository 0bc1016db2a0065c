package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// settle commits the units together if possible, otherwise each by itself, and sends each
// unit its outcome.
func (c *committer) settle(units []*unit) {
	if c.logged(units) {
		return
	}
	err := c.attempt(units)
	if err == nil {
		return
	}
	if len(units) > 1 && c.engine.shut(err) {
		if units, err = c.sift(units); err == nil {
			return
		}
	}
	if len(units) > 1 && c.each(err) {
		c.metrics.splits.Inc()
		for _, u := range units {
			if err := c.attempt([]*unit{u}); err != nil {
				c.fail(u, err)
			}
		}
		return
	}
	for _, u := range units {
		c.fail(u, err)
	}
}

// sift settles a batch in which the task of a lease was closed first. Without it, the
// close of a busy task would cost every other unit of the batch a commit of its own. The
// leases of closed tasks get ErrTaskClosed. The other leases are committed first, before
// units that may close one of their tasks. On an error, sift returns the units without an
// outcome.
func (c *committer) sift(units []*unit) ([]*unit, error) {
	var ids []string
	for _, u := range units {
		if u.lease != nil {
			ids = append(ids, u.lease.TaskID)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.time)
	defer cancel()
	var w where
	w.in("id", ids)
	w.add("state <> 'closed'")
	open, err := collect(ctx, c.engine.read(), "SELECT id FROM tasks"+w.String(), w.args, func(row scan) (id string, err error) { return id, row(&id) })
	if err != nil {
		return units, err
	}
	var minting, others []*unit
	for _, u := range units {
		switch {
		case u.lease == nil:
			others = append(others, u)
		case slices.Contains(open, u.lease.TaskID):
			minting = append(minting, u)
		default:
			c.fail(u, closedTask(u))
		}
	}
	if len(minting) > 0 {
		if err := c.attempt(minting); err != nil {
			return slices.Concat(minting, others), err
		}
	}
	if len(others) > 0 {
		return others, c.attempt(others)
	}
	return nil, nil
}

func closedTask(u *unit) error {
	return fmt.Errorf("task %s: %w", u.lease.TaskID, broker.ErrTaskClosed)
}

// each reports whether units that failed as a batch should run one by one.
func (c *committer) each(err error) bool { return refusal(err) || c.engine.lone(err) }

func (c *committer) fail(u *unit, err error) {
	if c.engine.taken(err) {
		err = fmt.Errorf("lease %s: %w", u.lease.ID, broker.ErrExists)
	}
	if c.engine.shut(err) {
		err = closedTask(u)
	}
	if !refusal(err) {
		c.metrics.failures.Inc()
		alone := c.engine.lone(err) // the written data is at fault
		if err = c.engine.explain(err); !alone {
			c.outcomes.fail(err)
		}
	}
	u.done <- err
}

// attempt runs units in one transaction and sends an outcome to each settled unit. On an
// error no unit is settled, and nothing of the transaction remains unless the error wraps
// ErrUnknown. It retries after a connection that broke before the commit was sent, after
// a deadlock, and when a late commit of this process took the place in the chain: in
// these cases the transaction cannot have been committed.
func (c *committer) attempt(units []*unit) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.time)
	defer cancel()
	for try := 1; ; try++ {
		fresh := c.sess == nil
		err := c.transact(ctx, units)
		if err == nil || errors.Is(err, ErrUnknown) || refusal(err) {
			return err
		}
		stale := c.sess == nil && !fresh && !c.engine.lone(err)
		if try == 3 || ctx.Err() != nil || !stale && !c.engine.again(err) && !c.engine.forked(err) {
			return err
		}
	}
}

func (c *committer) transact(ctx context.Context, units []*unit) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	mark := c.chain.Mark()
	c.entryLog.mend()
	// An idle connection may be broken. A separate BEGIN detects that while nothing can
	// have been committed yet.
	begun := slices.ContainsFunc(units, func(u *unit) bool { return u.work != nil }) || time.Since(c.used) > time.Second
	if begun {
		if err := c.sess.say(ctx, c.engine.begin); err != nil {
			c.drop()
			return err
		}
	}
	refused, err := c.apply(ctx, units)
	if err == nil {
		err = c.sess.finish(ctx, !begun, c.statements())
	}
	c.used = time.Now()
	if err != nil {
		c.undo(ctx, mark, err)
		return err
	}
	if len(c.entries) > 0 { // a commit without entries does not replace rows that a crash may restore
		c.durable.Store(&durable{head: c.chain.Head()})
		c.entryLog.rewind()
	}
	for _, u := range units {
		if err := refused[u]; err != nil {
			u.done <- err
			continue
		}
		c.outcomes.succeeded(u.probe)
		u.done <- u.answer
	}
	return nil
}

// undo restores the connection and the chain to their state before the transaction. It
// drops both when their state is not known.
func (c *committer) undo(ctx context.Context, mark audit.Chain, err error) {
	if errors.Is(err, ErrUnknown) {
		c.log.Error("a commit to the database has an unknown outcome", "error", err)
		c.entryLog.broken = true
		c.drop()
		return
	}
	c.chain.Reset(mark)
	if c.rollback(ctx) != nil || ctx.Err() != nil || c.engine.forked(err) {
		c.drop()
	}
}

func (c *committer) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return c.sess.say(ctx, "ROLLBACK")
}

// apply runs the units inside the open transaction. It returns the units that refused
// before they wrote, each with its reason, and continues with the others.
func (c *committer) apply(ctx context.Context, units []*unit) (map[*unit]error, error) {
	var refused map[*unit]error
	leases, entries := c.leases[:0], append(c.entries[:0], c.entryLog.waiting...)
	linked := len(entries)
	for _, u := range units {
		if u.work != nil {
			before := c.sess.writes
			err := u.work(ctx, c.sess, u)
			if err != nil && (!refusal(err) || c.sess.writes != before) {
				return nil, err
			}
			if err != nil {
				if refused == nil {
					refused = map[*unit]error{}
				}
				refused[u] = err
				continue
			}
		}
		if u.lease != nil {
			leases = append(leases, u.lease)
		}
		entries = append(entries, u.entries...)
	}
	c.leases, c.entries = leases, entries
	for i := linked; i < len(entries); i++ {
		if err := c.chain.Link(&entries[i]); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// statements returns the inserts of the leases and entries that apply collected.
func (c *committer) statements() []statement {
	out, args := c.inserts[:0], c.args[:0]
	add := func(b *bulk, n int, row func(i int)) {
		for from := 0; from < n; from += chunk {
			start, to := len(args), min(from+chunk, n)
			for i := from; i < to; i++ {
				row(i)
			}
			out = append(out, statement{b.text(to - from), args[start:]})
		}
	}
	add(&c.leaseRows, len(c.leases), func(i int) { args = appendLease(args, c.leases[i]) })
	add(&c.entryRows, len(c.entries), func(i int) { args = appendEntry(args, &c.entries[i]) })
	c.inserts, c.args = out, args
	return out
}

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

// writeProbe writes to a table from which the role of ebb serve may delete (package migrations).
func writeProbe(ctx context.Context, s *session, u *unit) error {
	row := "probe " + strings.Repeat("x", probeBytes)
	if _, err := s.exec(ctx, "INSERT INTO notification_cursors (writer, seq) VALUES (?, 0)", row); err != nil {
		return err
	}
	_, err := s.exec(ctx, "DELETE FROM notification_cursors WHERE writer = ?", row)
	return err
}
