package api_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
)

// errStore is what a failing store says: all of it is internal.
var errStore = errors.New("dial tcp 10.0.0.5:6379: redis: sql: password=hunter2 (/srv/ebb/store.go:42)")

// faults is a switch that makes real stores fail.
type faults struct{ ledger, journal, desk atomic.Bool }

type faultyLedger struct {
	broker.Ledger
	on *atomic.Bool
}

func (l faultyLedger) fault() error {
	if l.on.Load() {
		return errStore
	}
	return nil
}

func (l faultyLedger) PutTask(ctx context.Context, t broker.Live, keep time.Time) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.Ledger.PutTask(ctx, t, keep)
}

func (l faultyLedger) SetState(ctx context.Context, id string, s broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if err := l.fault(); err != nil {
		return broker.Counts{}, false, err
	}
	return l.Ledger.SetState(ctx, id, s, at, keep)
}

func (l faultyLedger) Touch(ctx context.Context, id string, u broker.Touch) (broker.Live, error) {
	if err := l.fault(); err != nil {
		return broker.Live{}, err
	}
	return l.Ledger.Touch(ctx, id, u)
}

func (l faultyLedger) PutLease(ctx context.Context, x broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.Ledger.PutLease(ctx, x, limits, refill)
}

func (l faultyLedger) EndLease(ctx context.Context, x broker.LiveLease, at time.Time) (bool, error) {
	if err := l.fault(); err != nil {
		return false, err
	}
	return l.Ledger.EndLease(ctx, x, at)
}

func (l faultyLedger) Status(ctx context.Context, taskID, leaseID string, now time.Time) (bool, error) {
	if err := l.fault(); err != nil {
		return false, err
	}
	return l.Ledger.Status(ctx, taskID, leaseID, now)
}

func (l faultyLedger) Follow(ctx context.Context, cursor string, limit int, wait time.Duration) ([]broker.Event, string, error) {
	if err := l.fault(); err != nil {
		return nil, "", err
	}
	return l.Ledger.Follow(ctx, cursor, limit, wait)
}

func (l faultyLedger) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := l.fault(); err != nil {
		return broker.Live{}, err
	}
	return l.Ledger.Admit(ctx, a)
}

func (l faultyLedger) Put(ctx context.Context, key, value string, until time.Time) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.Ledger.Put(ctx, key, value, until)
}

func (l faultyLedger) Take(ctx context.Context, key string) (string, error) {
	if err := l.fault(); err != nil {
		return "", err
	}
	return l.Ledger.Take(ctx, key)
}

func (l faultyLedger) Pace(ctx context.Context, key string, now time.Time, interval, step time.Duration, until time.Time) (time.Duration, bool, error) {
	if err := l.fault(); err != nil {
		return 0, false, err
	}
	return l.Ledger.Pace(ctx, key, now, interval, step, until)
}

func (l faultyLedger) Check(ctx context.Context) error {
	if err := l.fault(); err != nil {
		return err
	}
	return l.Ledger.Check(ctx)
}

type faultyJournal struct {
	broker.Journal
	on *atomic.Bool
}

func (j faultyJournal) Append(ctx context.Context, r broker.Record) error {
	if j.on.Load() {
		return errStore
	}
	return j.Journal.Append(ctx, r)
}

func (j faultyJournal) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	if j.on.Load() {
		return func() error { return errStore }
	}
	return j.Journal.Begin(ctx, r)
}

func (j faultyJournal) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Journal.Take(ctx, provider, now, hold, n)
}

func (j faultyJournal) Owing(ctx context.Context, now time.Time) ([]broker.Owing, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Journal.Owing(ctx, now)
}

func (j faultyJournal) Held(ctx context.Context) (map[string]int, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Journal.Held(ctx)
}

func (j faultyJournal) Tasks(ctx context.Context, f broker.TaskFilter) ([]broker.Task, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Journal.Tasks(ctx, f)
}

func (j faultyJournal) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Journal.Leases(ctx, f)
}

func (j faultyJournal) Entries(ctx context.Context, f broker.EntryFilter) iter.Seq2[audit.Entry, error] {
	if j.on.Load() {
		return func(yield func(audit.Entry, error) bool) { yield(audit.Entry{}, errStore) }
	}
	return j.Journal.Entries(ctx, f)
}

func (j faultyJournal) Checkpoints(ctx context.Context) ([]audit.Checkpoint, error) {
	if j.on.Load() {
		return nil, errStore
	}
	return j.Journal.Checkpoints(ctx)
}

type faultyDesk struct {
	broker.Desk
	on *atomic.Bool
}

func (d faultyDesk) Create(ctx context.Context, r broker.Request, room broker.Room, e audit.Entry) (broker.Request, bool, error) {
	if d.on.Load() {
		return broker.Request{}, false, errStore
	}
	return d.Desk.Create(ctx, r, room, e)
}

func (d faultyDesk) Vote(ctx context.Context, v broker.Vote, until time.Time, entries ...audit.Entry) (broker.Request, error) {
	if d.on.Load() {
		return broker.Request{}, errStore
	}
	return d.Desk.Vote(ctx, v, until, entries...)
}

func (d faultyDesk) VoteAll(ctx context.Context, bs []broker.Ballot) ([]broker.Request, error) {
	if d.on.Load() {
		return nil, errStore
	}
	return d.Desk.VoteAll(ctx, bs)
}

func (d faultyDesk) Settle(ctx context.Context, id string, from, to broker.RequestState, at time.Time, r broker.Record) (broker.Request, error) {
	if d.on.Load() {
		return broker.Request{}, errStore
	}
	return d.Desk.Settle(ctx, id, from, to, at, r)
}

func (d faultyDesk) Requests(ctx context.Context, f broker.RequestFilter) ([]broker.Request, error) {
	if d.on.Load() {
		return nil, errStore
	}
	return d.Desk.Requests(ctx, f)
}
