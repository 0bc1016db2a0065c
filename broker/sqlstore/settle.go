package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// Settle implements broker.ApprovalStore. The whole record r is written with the move, or none of
// it. Only Vote approves. A request that expires without a decision gets the deny code
// no_answer.
func (q *revocationStore) Settle(ctx context.Context, id string, from, to broker.RequestState, at time.Time, r broker.Record) (broker.Request, error) {
	if err := checkMove(from, to); err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	if at.IsZero() {
		return broker.Request{}, fmt.Errorf("settle request %s: a time is required", id)
	}
	if r.SettleLease != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: a lease is settled in a record of its own", id)
	}
	u := &unit{}
	var err error
	if u.lease, err = ownLease(r); err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	if u.entries, err = draft(r.Entries); err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	more, err := parts(r)
	if err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	var out broker.Request
	u.work = func(ctx context.Context, s *session, _ *unit) error {
		if err := move(ctx, s, id, from, to, at); err != nil {
			return err
		}
		if err := more(ctx, s); err != nil {
			return err
		}
		var err error
		out, err = oneRequest(ctx, s, id)
		return err
	}
	if err := q.com.do(ctx, u); err != nil {
		return broker.Request{}, fmt.Errorf("settle request: %w", err)
	}
	return out, nil
}

func checkMove(from, to broker.RequestState) error {
	switch from {
	case broker.RequestPending:
		switch to {
		case broker.RequestDenied, broker.RequestExpired, broker.RequestWithdrawn:
			return nil
		}
	case broker.RequestApproved:
		switch to {
		case broker.RequestIssued, broker.RequestExpired, broker.RequestWithdrawn:
			return nil
		}
	}
	return errors.New("there is no transition from " + string(from) + " to " + string(to))
}

func move(ctx context.Context, s *session, id string, from, to broker.RequestState, at time.Time) error {
	text, args := "UPDATE requests SET state = ?", []any{string(to)}
	if from == broker.RequestPending {
		text, args = text+", decided_at = ?", append(args, millis(at))
	}
	if from == broker.RequestPending && to == broker.RequestExpired {
		text, args = text+", code = ?", append(args, string(broker.NoAnswer))
	}
	n, err := s.exec(ctx, text+" WHERE id = ? AND state = ?", append(args, id, string(from))...)
	if err == nil && n == 0 {
		return lost(ctx, s, "requests", id)
	}
	return err
}
