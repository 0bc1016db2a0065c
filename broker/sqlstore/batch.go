package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
)

// settle commits the units together if it can, else each by itself, and tells
// every one its outcome.
func (c *committer) settle(units []*unit) {
	err := c.attempt(units)
	if err == nil {
		return
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

// each reports whether units that failed together should run one by one.
func (c *committer) each(err error) bool {
	return errors.Is(err, errMixed) || refusal(err) || c.engine.lone(err)
}

func (c *committer) fail(u *unit, err error) {
	if errors.Is(err, errMixed) {
		err = broker.ErrExists
	}
	if !refusal(err) {
		c.metrics.failures.Inc()
		err = c.engine.explain(err)
	}
	u.done <- err
}

// attempt runs units in one transaction and tells those that are settled. On an
// error none is, and nothing of the transaction remains, unless the error wraps
// ErrUnknown. A connection that broke before the commit was sent, and a deadlock,
// are tried again: the database cannot have committed.
func (c *committer) attempt(units []*unit) error {
	ctx, cancel := context.WithTimeout(context.Background(), batchTime)
	defer cancel()
	for try := 1; ; try++ {
		fresh := c.sess == nil
		err := c.transact(ctx, units)
		if err == nil || errors.Is(err, ErrUnknown) || refusal(err) || errors.Is(err, errMixed) {
			return err
		}
		stale := c.sess == nil && !fresh && !c.engine.lone(err)
		if try == 3 || ctx.Err() != nil || !stale && !c.engine.again(err) {
			return err
		}
	}
}

func (c *committer) transact(ctx context.Context, units []*unit) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	mark := c.chain.Mark()
	if err := c.sess.say(ctx, c.engine.begin); err != nil {
		c.drop()
		return err
	}
	refused, err := c.apply(ctx, units)
	if err != nil {
		c.chain.Reset(mark)
		// After a failed rollback, or a lost connection, nobody knows what the
		// connection is in the middle of.
		if c.rollback(ctx) != nil || ctx.Err() != nil {
			c.drop()
		}
		return err
	}
	if err := c.sess.say(ctx, "COMMIT"); err != nil {
		c.log.Error("journal commit has an unknown outcome", "units", len(units), "error", err)
		c.drop()
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	for _, u := range units {
		u.done <- refused[u]
	}
	return nil
}

func (c *committer) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return c.sess.say(ctx, "ROLLBACK")
}

// apply runs the units inside the open transaction. Units that refused before
// they wrote anything are returned with their reason; the others go on.
func (c *committer) apply(ctx context.Context, units []*unit) (map[*unit]error, error) {
	var refused map[*unit]error
	leases, entries := c.leases[:0], c.entries[:0]
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
	for i := range entries {
		if err := c.chain.Link(&entries[i]); err != nil {
			return nil, err
		}
	}
	if err := c.insertLeases(ctx, leases); err != nil {
		return nil, err
	}
	return refused, c.insertEntries(ctx, entries)
}

// chunk is how many rows one statement inserts at most: far below the limit on
// parameters of either engine, and few enough texts to keep all prepared.
const chunk = 64

func (c *committer) insertLeases(ctx context.Context, leases []*broker.Lease) error {
	for len(leases) > 0 {
		n := min(len(leases), chunk)
		args := c.args[:0]
		for _, l := range leases[:n] {
			args = appendLease(args, l)
		}
		c.args = args
		touched, err := c.sess.exec(ctx, c.leaseRows.text(n), args...)
		if err != nil {
			return err
		}
		if touched != int64(n) {
			return errMixed
		}
		leases = leases[n:]
	}
	return nil
}

func (c *committer) insertEntries(ctx context.Context, entries []audit.Entry) error {
	for len(entries) > 0 {
		n := min(len(entries), chunk)
		args := c.args[:0]
		for i := range entries[:n] {
			args = appendEntry(args, &entries[i])
		}
		c.args = args
		if _, err := c.sess.exec(ctx, c.entryRows.text(n), args...); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}
