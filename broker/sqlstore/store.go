package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// storeWriter appends records: one unit for each record, many units in one commit.
type storeWriter struct {
	com    *committer
	engine *engine
}

// Append implements broker.Store. While the record waits in the queue, the end of ctx
// withdraws it. Once its batch has begun, the batch runs to its end regardless of ctx,
// and Append waits for that (about 10 seconds at most).
func (w *storeWriter) Append(ctx context.Context, r broker.Record) error {
	return w.Begin(ctx, r)()
}

// Begin implements broker.Store.
func (w *storeWriter) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	u, err := newUnit(r)
	if err == nil {
		err = w.com.put(ctx, u)
	}
	return func() error {
		if err == nil {
			err = w.com.outcome(ctx, u)
		}
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		return nil
	}
}

// newUnit validates a record, so that an invalid one cannot fail a batch of others.
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
			return nil, errors.New("a record with a lease cannot be late; only entries may be late")
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

// ownLease checks the lease that a record issues, and returns it if it is an uncounted
// lease of an own token: these are inserted together with the others of the batch. A
// counted lease is inserted by issueLimited, a lease at a third party by issueUpstream.
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
