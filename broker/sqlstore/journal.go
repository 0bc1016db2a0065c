package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"ebb/broker"
	"ebb/broker/audit"
)

var (
	_ broker.Journal = (*Store)(nil)
	_ broker.Desk    = (*Store)(nil)
)

// Append implements broker.Journal. While it waits in the queue ctx withdraws
// it; once its batch has begun it runs to its end whatever becomes of ctx, and
// Append waits for that (at most some 10 seconds).
func (s *Store) Append(ctx context.Context, r broker.Record) error {
	return s.Begin(ctx, r)()
}

// Begin implements broker.Journal.
func (s *Store) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	u, err := newUnit(r)
	if err == nil {
		err = s.com.put(ctx, u)
	}
	return func() error {
		if err == nil {
			err = s.com.outcome(ctx, u)
		}
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		return nil
	}
}

// newUnit checks a record before it can get in the way of others.
func newUnit(r broker.Record) (*unit, error) {
	if r.SettleLease != nil && !r.Late {
		work, err := settleLease(r)
		return &unit{work: work}, err
	}
	u := &unit{late: r.Late}
	var err error
	if u.lease, err = ownLease(r); err != nil {
		return nil, err
	}
	if u.entries, err = draft(r.Entries); err != nil {
		return nil, err
	}
	if r.OpenTask == nil && r.MoveTask == nil && r.BindSandbox == nil && r.ResealLease == nil && r.EndLease == nil && r.IssueLease == u.lease {
		if u.lease == nil && len(u.entries) == 0 {
			return nil, errors.New("the record is empty")
		}
		if u.late && u.lease != nil {
			return nil, errors.New("somebody waits for a lease: only entries may be late")
		}
		return u, nil
	}
	if u.late {
		return nil, errors.New("only entries may be late")
	}
	work, err := parts(r)
	if err != nil {
		return nil, err
	}
	u.work = func(ctx context.Context, s *session, _ *unit) error { return work(ctx, s) }
	return u, nil
}

// ownLease checks the lease that a record issues and returns it when it is one of an
// own token, which is inserted together with those of the rest of the batch. One
// that is counted is inserted where it is counted.
func ownLease(r broker.Record) (*broker.Lease, error) {
	if r.IssueLease == nil {
		return nil, nil
	}
	if err := checkLease(r.IssueLease); err != nil || r.IssueLease.Upstream != nil || r.IssueLimit > 0 {
		return nil, err
	}
	return r.IssueLease, nil
}

func draft(entries []audit.Entry) ([]audit.Entry, error) {
	out := make([]audit.Entry, len(entries))
	for i, e := range entries {
		var err error
		if out[i], err = audit.Draft(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}
