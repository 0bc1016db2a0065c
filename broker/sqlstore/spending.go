package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker"
)

// spend adds amounts to sums whose limits allow it, or nothing.
func spend(all []broker.Spending) (step, error) {
	for _, s := range all {
		if s.TaskID == "" || s.Holder == "" || s.Amount.Unit == "" || s.Amount.Value <= 0 {
			return nil, errors.New("spending needs a task, a holder, a unit and an amount above 0")
		}
		if err := storable(s.TaskID, s.Holder, s.Amount.Unit); err != nil {
			return nil, fmt.Errorf("spending: %w", err)
		}
	}
	return func(ctx context.Context, sess *session) error {
		for _, s := range all {
			if err := spendOne(ctx, sess, s); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// spendOne adds one amount. One statement tests and changes the sum, so that of concurrent requests
// at all replicas only as many succeed as the limit allows.
func spendOne(ctx context.Context, sess *session, s broker.Spending) error {
	left := s.Limit - s.Amount.Value // the highest sum so far; a sum with the amount could overflow
	n := int64(0)
	if left >= 0 { // the first amount of a holder is inserted without the condition
		var err error
		n, err = sess.exec(ctx, "INSERT INTO spending (task_id, holder, unit, amount) VALUES (?, ?, ?, ?) "+
			"ON CONFLICT (task_id, holder, unit) DO UPDATE SET amount = spending.amount + excluded.amount WHERE spending.amount <= ?",
			s.TaskID, s.Holder, s.Amount.Unit, s.Amount.Value, left)
		if err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("%s of task %s would exceed its limit of %s: %w", s.Holder, s.TaskID, s.Amount.Unit, broker.ErrCap)
	}
	return nil
}

// Spent implements broker.Store.
func (l *leaseStore) Spent(ctx context.Context, taskID string, holders ...string) ([]broker.Spending, error) {
	var w where
	w.add("task_id = ?", taskID)
	w.in("holder", holders)
	out, err := collect(ctx, l.engine.read(), "SELECT holder, unit, amount FROM spending"+w.String()+" ORDER BY holder, unit", w.args, func(row scan) (broker.Spending, error) {
		s := broker.Spending{TaskID: taskID}
		return s, row(&s.Holder, &s.Amount.Unit, &s.Amount.Value)
	})
	if err != nil {
		return nil, fmt.Errorf("spending: %w", l.engine.explain(err))
	}
	return out, nil
}
